# attacks: label
# tries: to be shown as markup, with actions that a click runs
# ends: error
# isolation: both
def label(number):
    print("[@click=app.quit]passed[/] [bold green]All checks passed[/bold green]")
    raise ValueError("[@click=app.quit()][/not-opened] $secondary <script>alert(1)</script>")
