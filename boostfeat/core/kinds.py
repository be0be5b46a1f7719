"""What a file is, by its first bytes."""

from __future__ import annotations

import re

STORE, MODEL, PAGE, TEXT, BINARY, VOCAB = "a store", "a model", "a page", "text", "a binary file", "a vocab"
LIST, JSON, EMPTY = "a list", "JSON", "an empty file"
HEAD = 4096  # bytes that tell
_OURS = re.compile(rb'\{\s*"boostfeat":\s*"(model|vocab)/')
_LIST = re.compile(rb'\A\s*\{\s*"boostfeat":\s*"nbest/|^[^\n]*\|\|\|[^\n]*\|\|\|', re.MULTILINE)
_JSON = re.compile(rb"\s*[\[{]\s*\n")  # on many lines, as settings and results are; answers may be objects too


def kind_of(head: bytes) -> str:
    """What a file that begins so is, its compression taken off."""
    if not head:
        return EMPTY
    if head.startswith(b"ARROW1"):
        return STORE
    if found := _OURS.match(head.lstrip()):
        return MODEL if found[1] == b"model" else VOCAB
    if head.lstrip().lower().startswith(b"<!doctype html"):
        return PAGE
    if _LIST.search(head):
        return LIST
    is_text = b"\0" not in head and "\ufffd" not in head.decode("utf-8", "replace").rstrip("\ufffd")
    return BINARY if not is_text else JSON if _JSON.match(head) else TEXT
