"""The HTML report: one static page for a class.

`gradebook.exports.html` puts the page together. `look.css` and `script.js` become part of it.
"""
