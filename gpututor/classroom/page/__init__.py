"""The class on one static HTML page, for its instructor: nothing comes from elsewhere, and it works without scripts.

`make` puts it together; each of the other modules writes one part. `look.css` and `script.js` become part of the page.
"""
