"""What a browser reads in a page."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """Elements with their attributes, the text outside
    of scripts and styles, and that of each <bdi>."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.bdi, self._open = [], "", [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.bdi += [""] * (tag == "bdi")
        self._open.append(tag)

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        if "bdi" in self._open:
            self.bdi[-1] += data
        if not {"script", "style"} & set(self._open):
            self.text += " ".join(data.split()) + " "

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def attributes(self):
        return [each for _, attributes in self.tags for each in attributes.items()]
