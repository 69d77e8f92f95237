"""Commands of every screen, declared once: keys, footers, help and palette entries come from this table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from textual.binding import Binding, BindingType

from gpututor.app.command import Command, group, row


class Pane(StrEnum):
    """Panes of the main screen, in the order of the tabs."""

    COURSE = "course"
    LESSON = "lesson"
    TASK = "task"
    CODE = "code"
    RESULTS = "results"
    HINTS = "hints"

    @property
    def heading(self) -> str:
        return self.value.capitalize()


EDITING = "In the editor"
# fmt: off
COMMANDS = (
    *group("Moving around",
        ("navigator.show_course", "f2", "1 l", "Course", "list", "Show the list of lessons and exercises."),
        ("navigator.show_lesson", "ctrl+l", "2", "Lesson", "", "Read the lesson that the exercise belongs to."),
        ("navigator.show_contents", "", "C", "Contents", "sections", "List the lesson's sections, and go to one."),
        ("navigator.show_task", "f3 ctrl+t", "3 t", "Task", "", "Read what the exercise asks for."),
        ("navigator.show_code", "f4", "4 e", "Code", "editor", "Go to your file."),
        ("navigator.show_results", "f6 ctrl+r", "5", "Results", "", "See the results of the checks."),
        ("navigator.next_pane", "", "tab", "Next pane", "", "Go to the next pane; skip the code."),
        ("navigator.previous_pane", "", "shift+tab", "Previous pane", "", "Go to the previous pane; skip the code."),
        ("zoom", "alt+z ctrl+backslash", "z", "Zoom", "full screen,maximize", "Show only this pane, or all panes."),
        ("navigator.next_exercise", "ctrl+n f9", "n", "Next", "", "Open the next exercise."),
        ("navigator.previous_exercise", "shift+f9", "p", "Previous", "", "Open the previous exercise."),
        ("navigator.search", "shift+f3", "slash", "Search", "find text", "Find words in lessons, tasks and names."),
        ("navigator.jump", "ctrl+o", "semicolon", "Jump", "", "Jump: press the letter shown."),
        ("navigator.go_back", "alt+left", "backspace", "Back", "", "Go back to where you followed a link."),
    ),
    *group("Working on an exercise",
        ("runs.run_checks", "ctrl+s f5", "r", "Run", "grade", "Save your file and run the checks."),
        ("cancel", "escape shift+f5", "", "Stop", "cancel", "Stop the run, or leave the editor."),
        ("go_to_failure", "f12", "f", "Go to line", "failure", "Go to the line that a failed check points at."),
        ("attempts.show_device", "f10", "d", "Device", "trace", "See what the device did in your last run."),
        ("attempts.compare", "shift+f11", "V", "Compare", "versus", "Compare your last run with another attempt."),
        ("attempts.export_trace", "", "X", "Export trace", "Perfetto", "Write your last run's trace, for Perfetto."),
        ("open_check", "", "space", "Open", "", "Expand or collapse the check at the cursor."),
        ("attempts.show_all_text", "shift+f12", "v", "All text", "output", "Show the full report and output."),
        ("attempts.show_history", "shift+f6", "a", "Attempts", "history", "See your attempts and their changes."),
        ("external_editor.open_file", "shift+f4", "o", "Own editor", "", "Open your file in your own editor."),
        ("learning.open_hint", "f7 ctrl+g", "h", "Hint", "", "Show the hints; again for the next one."),
        ("learning.show_hints", "", "6", "Hints", "", "Show the hints that are open."),
        ("learning.show_solution", "f8", "s", "Solution", "diff", "Compare your file with the solution."),
        ("learning.reset", "shift+f10", "x", "Reset", "starter", "Start over from the starter; a backup is saved."),
    ),
    *group(EDITING,
        ("panes.editor.action_toggle_comment", "ctrl+underscore f11", "", "Comment", "uncomment",
         "Comment or uncomment the lines."),
        ("editing.find", "ctrl+f", "", "Find", "replace", "Find and replace in your file."),
        ("panes.editor.action_select_all", "alt+a", "", "Select all", "", "Select your whole file."),
        ("editing.undo", "ctrl+z", "", "Undo", "take back", "Undo the last change to your file."),
        ("editing.redo", "ctrl+y", "", "Redo", "", "Redo the change that you undid."),
        ("editing.complete", "ctrl+@ ctrl+space", "", "Complete", "", "Complete the name at the cursor."),
        ("editing.show_documentation", "alt+d", "K", "Docs", "signature,docstring,reference",
         "Show the signature and documentation of the name at the cursor."),
        ("panes.editor.action_move_lines_up", "alt+up", "", "Line up", "move up", "Move the line or selection up."),
        ("panes.editor.action_move_lines_down", "alt+down", "", "Line down", "move down",
         "Move the line or selection down."),
        ("panes.editor.action_duplicate_lines", "alt+shift+down", "", "Duplicate", "copy line", "Duplicate the line."),
        ("editing.switch_costs", "shift+f8", "c", "Costs", "", "Show or hide the cost of each line."),
    ),
    *group("The program",
        ("learning.show_progress", "shift+f7", "w", "Progress", "statistics", "See your progress and what to repeat."),
        ("runs.show_devices", "shift+f1", "D", "Devices", "gpu,models,doctor",
         "See the devices; choose where runs happen."),
        ("show_settings", "shift+f2", "comma", "Settings", "options",
         "Colors, editor, motion, when checks run."),
        ("copying.copy", "", "y", "Copy", "clipboard,yank", "Copy the report, or the path of your file."),
        ("attempts.save_screen", "", "S", "Save screen", "screenshot", "Save a picture of the screen in exports."),
        ("show_help", "f1", "question_mark", "Help", "keys", "Show the keys."),
        ("show_glossary", "", "W", "Glossary", "words", "Explain the words of the course."),
        ("leave", "ctrl+q", "q", "Quit", "exit", "Save and leave."),
    ),
)

SCREENS: dict[str, tuple[Command, ...]] = {
    "main": COMMANDS,
    "trace": (
        row("pages", "1:tab(0) 2:tab(1) 3:tab(2) 4:tab(3) 5:tab(4) tab:next_tab(1) shift+tab:next_tab(-1)", "Tab",
             "The tabs; Tab and Shift+Tab go through them.", shown="1-5", bar="1-5: tab"),
        row("case", "c:case(1) C:case(-1)", "Call", "Another call of your function.", shown="c C", bar="c: call"),
        row("scenario", "s:scenario(1)", "Scenario", "Another scenario.", bar="s: scenario"),
        row("compare", "V,shift+f11,f23", "Compare", "Compare the attempt with another.", bar="V: compare"),
        row("what_if", "w", "What if", "Run the attempt on other models of the virtual GPU.", bar="w: GPUs"),
        row("export", "X", "Export", "Write the trace of this call, for Perfetto."),
        row("run", "r,f5,ctrl+s", "Run", "Go back and run the checks again.", bar="r: run the checks"),
        row("save_screen", "S", "Save screen", "Save a picture of the screen in exports."),
        row("help", "question_mark,f1", "Help", "How to read the tab, and its keys.", bar="?: help"),
        row("close", "escape,q,d,f10", "Back", "Back.", shown="Esc  q  d", bar="Esc: back"),
    ),
    "compare": (
        row("pages", "1:page(0) 2:page(1) 3:page(2) tab:next_page(1) shift+tab:next_page(-1)", "Page",
             "The pages; Tab and Shift+Tab go through them.", shown="1-3", bar="1-3: page"),
        row("other", "a:other(1) A:other(-1)", "Another attempt", "Compare with another attempt, or the baseline.",
             shown="a A", bar="a: other attempt"),
        row("case", "c:case(1) C:case(-1)", "Call", "Another call of your function.", shown="c C", bar="c: call"),
        row("scenario", "s:scenario(1)", "Scenario", "Another scenario.", bar="s: scenario"),
        row("save_screen", "S", "Save screen", "Save a picture of the screen in exports."),
        row("help", "question_mark,f1", "Help", "How to read the page, and its keys.", bar="?: help"),
        row("close", "escape,q,V,shift+f11,f23", "Back", "Back.", shown="Esc  q  V", bar="Esc: back"),
    ),
    "what_if": (
        row("start", "", "Run", "Run on the models in the list.", bar="Enter: runs on these"),
        row("scroll", "pagedown:scroll(1) pageup:scroll(-1)", "Scroll", "Scroll the table.", shown="PgDn PgUp"),
        row("close", "escape", "Close", "Stop the run, or go back.", bar="Esc: stops, or back"),
    ),
    "history": (
        row("rows", "", "Attempt", "Go to another attempt; the best is marked.", shown="j k  ↑ ↓"),
        row("report", "enter,o:choose('report')", "Report",
             "Show its report; your file is not changed.", shown="Enter  o", bar="Enter: report"),
        row("text", "b:choose('text')", "Text", "Restore its text; your current text is saved in .backups.",
             bar="b: restore"),
        row("device", "d,f10:choose('device')", "Device", "See what the device did in it.", bar="d: device"),
        row("compare", "V,shift+f11,f23:choose('compare')", "Compare", "Compare it with another attempt.",
             bar="V: compare"),
        row("changes", "tab:scroll_changes", "Changes", "Show more of what changed in the file."),
        row("close", "escape,q,a,shift+f6,f18", "Back", "Back.", shown="Esc  q  a", bar="Esc: back"),
        row("help", "question_mark,f1", "Help", "Show these keys.", bar="?: help"),
    ),
    "devices": (
        row("choose", "", "Choose", "Run on that device, or model that GPU.", bar="Enter: chooses"),
        row("rows", "j:step(1) k:step(-1)", "Rows", "Down and up.", shown="j k  ↓ ↑"),
        row("scroll", "pagedown:scroll_page(1) pageup:scroll_page(-1)", "Scroll", "Scroll the page.",
             shown="PgDn PgUp"),
        row("pages", "1:page(1) 2:page(2) 3:page(3) tab:turn(1) shift+tab:turn(-1)", "Page",
             "Go to a page; Tab goes to the next one.", shown="1-3", bar="Tab: next page"),
        row("check_again", "r", "Check again", "Check again.", bar="r: rechecks"),
        row("close", "escape,q,D,shift+f1,f13", "Close", "Close it.", bar="Esc: closes"),
    ),
    "progress": (
        row("open", "", "Open", "Open the exercise, or the lesson.", bar="Enter: opens"),
        row("again", "x", "Again", "Start the exercise over; your file is saved in .backups."),
        row("rows", "j:step(1) k:step(-1)", "Rows", "Down and up.", shown="j k  ↓ ↑"),
        row("ends", "g:end('first') G:end('last')", "Ends", "To the top and to the end."),
        row("pages", "1:page(1) 2:page(2) tab:turn(1) shift+tab:turn(-1)", "Page",
             "Go to a page; Tab goes to the next one.", shown="1-2", bar="Tab: next page"),
        row("close", "escape,q,w,shift+f7,f19", "Close", "Close it.", bar="Esc: closes"),
    ),
    "search": (
        row("open", "", "Open", "Go to the selected match.", bar="Enter: opens"),
        row("rows",
             "down,ctrl+n:move('cursor_down') up:move('cursor_up') pagedown:move('page_down') pageup:move('page_up')",
             "Choose", "Go to another match.", shown="↓ ↑", bar="↓ ↑: choose"),
        row("close", "escape", "Close", "Close it.", bar="Esc: closes"),
    ),
    "mark": (
        row("write", "", "Set", "Set the mark.", shown="Enter", bar="Enter: sets it"),
        row("close", "escape", "Close", "Close it; the mark stays as it is.", bar="Esc: closes"),
    ),
    "settings": (
        row("turn", "right,l,space:turn(1) left,h:turn(-1)", "Change", "The next or previous value.",
             shown="← →", bar="← →: changes"),
        row("rows", "j:step(1) k:step(-1)", "Rows", "Down and up.", shown="j k  ↓ ↑"),
        row("next", "", "Next", "The next value.", bar="Enter: next value"),
        row("themes", "", "Themes", "On the theme: list all themes.", bar="Enter: all themes"),
        row("edit", "", "Edit", "On your own editor: type its command; any letter except j, k or q starts typing.",
             bar="Enter: edit"),
        row("close", "escape,q,comma,shift+f2,f14", "Close", "Close it.", bar="Esc: closes"),
    ),
    "editor": (
        row("move", "down,ctrl+n:move(1) up:move(-1)", "Choose", "Put an installed editor into the box.",
             shown="↓ ↑", bar="↓ ↑: installed editors"),
        row("save", "", "Save", "Save the command.", bar="Enter: saves"),
        row("close", "escape", "Cancel", "Cancel.", bar="Esc: cancels"),
    ),
    "themes": (
        row("rows", "j:list('cursor_down') k:list('cursor_up')", "Rows", "Down and up; the colors change at once.",
             shown="j k  ↓ ↑", bar="↓ ↑: previews"),
        row("ends", "g:list('first') G:list('last')", "Ends", "To the top and to the end."),
        row("save", "", "Save", "Keep the theme.", bar="Enter: saves"),
        row("close", "escape,q", "Cancel", "Bring the old theme back.", bar="Esc: cancels"),
    ),
    "text": (
        row("scroll", "", "Scroll", "Down and up.", bar="↓ ↑ Space: scroll"),
        row("close", "escape,q,f1,question_mark,enter", "Close", "Close it.", bar="Esc: closes"),
    ),
    "all_text": (
        row("scroll", "", "Scroll", "Down and up.", bar="j k Space: scroll"),
        row("ends", "", "Ends", "To the top and to the end.", bar="g G: top and end"),
        row("copy", "y", "Copy", "Copy all of the text.", bar="y: copy"),
        row("close", "escape,q,v,enter,shift+f12,f24", "Close", "Close it.", bar="Esc: closes"),
    ),
    "diff": (
        row("next", "right_square_bracket,n:walk(1)", "Next change", "Go to the next change.", bar="]: next"),
        row("before", "left_square_bracket,p:walk(-1)", "Previous change", "Go to the previous change.",
             bar="[: previous"),
        row("scroll", "j:scroll('down') k:scroll('up')", "Scroll", "Down and up.", bar="j k Space: scroll"),
        row("page", "space:scroll('page_down')", "Page", "A page down."),
        row("ends", "g:scroll('home') G:scroll('end')", "Ends", "To the top and to the end."),
        row("close", "escape,q,enter", "Close", "Close it.", bar="Esc: closes"),
    ),
    "finished": (
        row("next", "n,f9", "Next", "Open the next exercise.", bar="n: opens"),
        row("progress", "w,shift+f7,f19:leave('progress')", "Progress",
             "See your progress and what to repeat.", bar="w: your progress"),
        row("scroll", "j:scroll(1) k:scroll(-1)", "Scroll", "Down and up."),
        row("page", "space", "Page", "A page down."),
        row("close", "escape,q,enter:leave('')", "Stay", "Stay here.", bar="Esc: stays here"),
    ),
    "welcome": (
        row("begin", "enter,space:app.begin", "Begin", "Make the folder; go to the first exercise.",
             bar="Enter: begins"),
        row("quit", "q,escape:app.quit", "Quit", "Leave.", bar="q: leaves"),
    ),
    "question": (
        row("before", "left,up:app.focus_previous", "Previous answer", "Go to the previous answer."),
        row("next", "right,down:app.focus_next", "Next answer", "Go to the next answer."),
        row("give_up", "escape", "Leave", "Choose the safe answer."),
    ),
    "class": (
        row("cells", "j:step('cursor_down') k:step('cursor_up') g:step('first') G:step('last')", "Cells",
             "Go to another cell; g and G go to the top and to the end.", shown="h j k l  ← ↓ ↑ →", bar="j k: scroll"),
        row("open", "", "Open", "Open the submission.", shown="Enter", bar="Enter: open"),
        row("students", "", "Students", "On the exercises page: show the exercise's students.", shown="Enter",
             bar="Enter: its students"),
        row("filter", "slash", "Filter", "Filter; Enter goes to the table, Esc shows all again.", bar="/: filter",
             palette="search,find"),
        row("order", "s", "Order", "Order by id, by name, by points.", bar="s: order", palette="sort"),
        row("pages", "1:page(0) 2:page(1) 3:page(2) tab:turn(1) shift+tab:turn(-1)", "Page",
             "Students, exercises, review.", shown="1 2 3  Tab"),
        row("mark_by_hand", "m", "Mark by hand", "On the students page: set a mark by hand, with a reason.",
             palette="override"),
        row("read_again", "f5,ctrl+r", "Read again", "Read the class again.", shown="F5  ^r",
             bar="F5: read again", palette="reload"),
        row("palette", "", "Palette", "Find a command, a student or an exercise by its name.", shown="^p"),
        row("back", "escape", "Show all", "Show all rows again; press again for the first page."),
        row("help", "question_mark,f1", "Help", "Explain this screen and its keys.", bar="?: help", palette=""),
        row("quit", "q,ctrl+q:app.quit", "Quit", "Leave.", shown="q", bar="q: quit"),
    ),
    "submission": (
        row("checks", "", "Checks", "Go to another check.", shown="j k  g G"),
        row("line", "", "Line", "Go to the line that the check points at.", shown="Enter"),
        row("open_check", "space", "Open", "Open the check, or close it."),
        row("attempt", "right_square_bracket:attempt(1) left_square_bracket:attempt(-1)", "Attempt",
             "This student's next or previous attempt.", shown="] [", bar="] [: attempt"),
        row("other_side", "tab,shift+tab", "Text", "Go from the checks to the text, or back.", shown="Tab",
             bar="Tab: text"),
        row("device", "d,f10", "Device", "See what the devices did.", shown="d", bar="d: device",
             palette="trace,timeline"),
        row("again", "R", "Grade again", "Grade it again.", bar="R: grade again", palette="regrade"),
        row("next", "n:step(1)", "Next student", "The next student in the table.", bar="n p: next, back", palette=""),
        row("previous", "p:step(-1)", "Previous student", "The previous student in the table.", palette=""),
        row("all_text", "v", "All text", "Read everything in full.", bar="v: all", palette=""),
        row("help", "question_mark,f1", "Help", "Explain this screen and its keys.", bar="?: help", palette=""),
        row("back", "escape,q", "Back", "Stop the grading, or go back to the class.", shown="Esc", bar="Esc: back",
             palette=""),
    ),
}
# fmt: on
"""Commands of every screen, in the order of its help and its key bar."""

# fmt: off
_ROWS = row("rows", "j:list('cursor_down') k:list('cursor_up')", "Choose", "Down and up.", shown="↑↓",
             bar="↑↓: choose")
_LINE = row("line", "", "Line", "Go to that line in your file.", bar="Enter: line")
_ENDS = row("ends", "g:list('first') G:list('last')", "Ends", "To the top and to the end.")
_TIMELINE = (
    row("event", "left,h:step(-1) right,l:step(1) g,home:end_of_lane(-1) G,end:end_of_lane(1)", "Event",
         "The previous or next event; g and G: the row's first and last.", shown="← →  h l", bar="←→: event"),
    row("row", "up,k:lane(-1) down,j:lane(1)", "Row", "Another row, at the same time.", shown="↑ ↓  k j",
         bar="↑↓: row"),
    row("zoom", "plus,equals_sign:zoom(1) minus,underscore:zoom(-1)", "Zoom", "Zoom in or out around the event.",
         shown="+ -", bar="+-: zoom"),
    row("line", "enter:go_to_line", "Line", "Go to the line of your file that caused the event.",
         bar="Enter: line"),
    row("stop", "n:stop(1) N:stop(-1)", "Hazard, wait", "The next or previous hazard or wait of the host.",
         bar="n: hazard, wait"),
    row("all", "z:zoom_to_event 0:whole", "All", "Zoom to the event; see everything.", shown="z  0", bar="0: all"),
    row("pan", "shift+left,left_square_bracket:pan(-1) shift+right,right_square_bracket:pan(1)", "Move",
         "Earlier and later; Shift with an arrow key does the same.", shown="[ ]", bar="[ ]: move"),
    row("launch", "space:other_end", "Launch", "Go from a launch to its work, or back.", bar="Space: launch"),
)
_LONG_TEXT = (
    row("scroll", "j,down:by(1) k,up:by(-1)", "Scroll", "Down and up."),
    row("page", "space,pagedown:page(1) pageup:page(-1)", "Page", "A page down or up."),
    row("ends", "g,home:end('home') G,end:end('end')", "Ends", "To the top and to the end."),
)
WIDGETS: dict[str, tuple[Command, ...]] = {
    "chart": _TIMELINE,
    "timeline": (
        *_TIMELINE,
        row("words", "pagedown:scroll_words(1) pageup:scroll_words(-1)", "Words", "Scroll the description below.",
             shown="PgUp PgDn"),
    ),
    "timelines": (
        *_TIMELINE[:3],
        row("other", "o", "Other timeline", "Switch to the other timeline.", bar="o: other timeline"),
        *(command for command in _TIMELINE[3:] if command.id in ("line", "all", "pan")),
    ),
    "memory": (
        row("read", "left,h:read(-1) right,l:read(1)", "Read", "Move along the curve, column by column.", shown="←→",
             bar="←→: read"),
        row("step", "shift+left,left_square_bracket:step(-1) shift+right,right_square_bracket:step(1)",
             "Change by change", "The previous or next change.", shown="[ ]", bar="[ ]: change by change"),
        row("peak", "p:go('peak')", "Peak", "To the peak.", bar="p: peak"),
        row("line", "enter", "Line", "Go to the line of the last allocation or free.", bar="Enter: line"),
        row("device", "down,j:device(1) up,k:device(-1)", "Device", "Another device.", shown="↑↓", bar="↑↓: device"),
        row("ends", "g,home:go('begin') G,end:go('end')", "Ends", "To the beginning and to the end."),
    ),
    "list": (_ROWS, _LINE, _ENDS),
    "lines": (_ROWS, row("order", "o", "Order", "Sort by time, or as in the file.", bar="o: order"), _LINE, _ENDS),
    "scrolling": (
        row("scroll", "j:scroll_down k:scroll_up space:page_down", "Scroll", "Down and up.", shown="↑↓",
             bar="↑↓: scroll"),
        row("ends", "g:scroll_home G:scroll_end", "Ends", "To the top and to the end."),
    ),
    "attempts": (
        row("rows", "j,down:move(1) k,up:move(-1)", "Attempt", "Down and up."),
        row("page", "pagedown,space:page(1) pageup:page(-1)", "Page", "A page down or up."),
        row("ends", "g,home:go(0) G,end:go(-1)", "Ends", "To the newest and to the first."),
    ),
    "marks": (
        row("cells", "j,down:move(1,0) k,up:move(-1,0) l,right:move(0,1) h,left:move(0,-1)", "Cells",
             "Go to another cell."),
        row("page", "pagedown,space:page(1) pageup:page(-1)", "Page", "A page down or up."),
        row("ends", "g,home:end(0) G,end:end(-1)", "Ends", "To the top and to the end."),
        row("choose", "enter", "Open", "Open the submission there."),
    ),
    "filter": (row("rows", "down:screen.move(1) up:screen.move(-1)", "Cells", "Go to another row."),),
    "course": (
        row("rows", "j:cursor_down k:cursor_up g:first G:last", "Rows", "Down, up, to the top, to the end.",
             shown="j k  g G"),
        row("open", "", "Open", "Open the exercise, or read the lesson.", shown="Enter"),
        row("filter", "slash", "Filter", "Type words to narrow the list; Esc shows all again."),
        row("cycle_view", "v", "View", "Show exercises to do, started, passed, on a learning path (★), or all."),
    ),
    "course_filter": (
        row("open", "", "Open", "Open the first match.", bar="Enter: Open"),
        row("clear", "", "Show all", "Show all again.", bar="Esc: Show all"),
        row("rows",
             "down:move('cursor_down') up:move('cursor_up') pagedown:move('page_down') pageup:move('page_up')",
             "Choose", "Go to another row.", bar="↓ ↑: Choose"),
    ),
    "reader": (
        row("scroll", "j:scroll_down k:scroll_up g:scroll_home G:scroll_end space:page_down", "Scroll",
             "Scroll; g and G go to the top and to the end.", shown="j k  Space"),
        row("link", "right:choose_link(1) left:choose_link(-1)", "Link", "Choose the next or previous link.",
             shown="→ ←"),
        row("follow_link", "enter", "Follow", "Follow the chosen link. Backspace goes back."),
    ),
    "code": (row("leave", "", "Leave", "Leave the editor: then letters are commands.", shown="Esc"),),
    "results": (
        row("steps", "j,down:step(1) k,up:step(-1) g,home:end(0) G,end:end(-1)", "Checks", "Go to another check.",
             shown="j k  g G"),
        row("page", "pagedown:page(1) pageup:page(-1)", "Page", "A page down or up.", shown="PgDn PgUp"),
        row("go_to_line", "enter", "Line", "Go to the line that the check points at."),
        row("open", "", "Open", "Open the check, or close it.", shown="Space"),
        row("all_text", "", "All text", "Read the full report, including what is cut off here.", shown="v"),
    ),
    "long_text": _LONG_TEXT,
    "submission_text": (*_LONG_TEXT, row("sideways", "l,right:right(1) h,left:right(-1)", "Sideways", "Sideways.")),
}
# fmt: on
"""Commands of widgets that have keys of their own, such as the tabs of the trace screen."""

BY_ID = {command.id: command for command in COMMANDS}
_PRIORITY = {"tab", "shift+tab", "pagedown", "pageup", "f5", "ctrl+r"}
"""Keys that other screens handle before the focused widget."""

_FOOTERS = {
    Pane.COURSE: "show_task show_code run_checks next_exercise",
    Pane.LESSON: "go_back show_task show_code show_contents show_course next_exercise search jump",
    Pane.TASK: "go_back show_code run_checks open_hint show_course show_lesson search",
    Pane.CODE: "run_checks go_to_failure next_exercise show_solution show_task show_results open_hint show_course",
    Pane.RESULTS: "open_check go_to_failure show_code run_checks show_device open_hint next_exercise show_history"
    " show_solution",
    Pane.HINTS: "open_hint show_code show_task run_checks show_solution",
}
FOOTERS = {pane: (*ids.split(), "show_help", "leave") for pane, ids in _FOOTERS.items()}
"""Commands of each pane's footer, the most useful first. The last two are always shown."""

_KEY_NAMES = {
    "escape": "Esc",
    "right_square_bracket": "]",
    "left_square_bracket": "[",
    "question_mark": "?",
    "slash": "/",
    "semicolon": ";",
    "backspace": "Bksp",
    "comma": ",",
    "ctrl+underscore": "^/",
    "ctrl+backslash": "^\\",
    "ctrl+@": "^Space",
    "ctrl+space": "^Space",
}
_ARROWS = {"Left": "←", "Up": "↑", "Down": "↓"}


def key_name(key: str) -> str:
    """Return how a key is written for people: `^s`, `F5`, `Esc`, `r`, `Alt+↑`."""
    if key in _KEY_NAMES:
        return _KEY_NAMES[key]
    if key.startswith("ctrl+"):
        return f"^{key.removeprefix('ctrl+')}"
    parts = [part.capitalize() if len(part) > 1 else part for part in key.split("+")]
    return "+".join([*parts[:-1], _ARROWS.get(parts[-1], parts[-1]) if parts[1:] else parts[-1]])


class KeyHint(NamedTuple):
    """A key and its action, for a bar of keys."""

    key: str
    title: str
    command: str = ""
    """Id of the command that a click runs; empty if there is none."""


def footer(
    commands: Sequence[Command], *, in_editor: bool, keys: Iterable[tuple[str, str]] = ()
) -> tuple[list[KeyHint], list[KeyHint]]:
    """Return hints for `keys` and the commands, and apart from them the hints of the last two commands."""
    hints = []
    for command in commands:
        key = command.keys[0] if command.keys and (in_editor or not command.bound) else command.letters[0]
        hints.append(KeyHint(key_name(key), command.title, command.id))
    return [*(KeyHint(*key) for key in keys), *hints[:-2]], hints[-2:]


def shown_keys(command: Command) -> str:
    """Return a key for outside the editor and a key that works everywhere."""
    return "  ".join(key_name(key) for key in (*command.letters[:1], *command.keys[:1]))


def bindings(commands: Iterable[Command] = COMMANDS) -> list[BindingType]:
    """Return the main screen's bindings. Keys that work in the editor have priority, and act after its text."""
    result: list[BindingType] = []
    for command in commands:
        # Most terminals send F13 to F24 for function keys with Shift.
        shifted = [f"f{int(key[7:]) + 12}" for key in command.keys if key.startswith("shift+f")]
        after_text, title = f"after_text('{command.id}')", command.title
        result += [Binding(key, after_text, title, show=False, priority=True) for key in (*command.keys, *shifted)]
        result += [Binding(key, action, title, show=False) for key, action in command.bound]
    return result


def screen_bindings(name: str, *only: str) -> list[BindingType]:
    """Return the bindings of a widget or of a screen other than the main one; with `only`, of these commands."""
    return [
        Binding(key, action, command.title, show=False, priority=name in SCREENS and key in _PRIORITY)
        for command in _commands(name)
        if not only or command.id in only
        for key, action in command.bound
    ]


def bar(name: str, *without: str) -> list[KeyHint]:
    """Return the hints of the key bar of a screen or widget, except for the commands `without`."""
    return [KeyHint(*command.bar) for command in _commands(name) if command.bar and command.id not in without]


def foot(screen: str, *without: str) -> str:
    """Return a dialog's key bar as text, except for the commands `without`."""
    return "   ".join(f"{hint.key} {hint.title}" for hint in bar(screen, *without))


def help_keys(name: str, *without: str) -> list[tuple[str, str]]:
    """Return (keys, sentence) of each command of a screen or widget, except for the commands `without`."""
    rows = (command for command in _commands(name) if command.id not in without)
    return [(command.shown or _all_keys(command), command.help) for command in rows]


def _commands(name: str) -> tuple[Command, ...]:
    return SCREENS.get(name) or WIDGETS[name]


def _all_keys(command: Command) -> str:
    """Return the first key of each action; the key in the bar if a widget handles the key."""
    if not command.bound:
        return command.bar[0] if command.bar else ""
    first = {action: key for key, action in reversed(command.bound)}
    return " ".join(key_name(key) for key in reversed(first.values()))
