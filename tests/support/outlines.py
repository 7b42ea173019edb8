"""What a page of HTML is made of, and its text."""

import html.parser
import re

VOID = {"meta", "br", "img", "input", "link", "hr", "path", "use"}
BLOCKS = {"h1", "h2", "h3", "p", "pre", "tr", "summary", "figcaption", "div", "dt"}
SILENT = {"style", "svg", "title", "caption"}


class Outline(html.parser.HTMLParser):
    """Checks that elements nest; collects tags, headings, ids, references and lines of text."""

    def __init__(self):
        super().__init__()
        self.open, self.headings, self.ids, self.references = [], [], [], []
        self.tags, self.lines = set(), [""]

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.add(tag)
        self.ids += [values["id"]] if "id" in values else []
        self.references += [values[key] or "" for key in ("href", "src", "srcset") if key in values]
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag in BLOCKS:
            self.lines.append(f"{'#' * int(tag[1])} " if tag in ("h1", "h2", "h3") else "")
        if tag in ("th", "td", "dd") and self.lines[-1]:
            self.lines[-1] += " | "
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if not SILENT & set(self.open):
            self.lines[-1] += data


def outline(text):
    """A page's outline; all that it opens is closed."""
    parser = Outline()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    plain = (" ".join(line.split()) for line in parser.lines)
    parser.lines = [line for line in plain if line.strip("# ")]
    return parser
