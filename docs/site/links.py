"""Fails the build of the site if a link in it leads nowhere, in pages, the reference or examples.

MkDocs checks the links of pages that are files, but not those of generated pages.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError

_LINK = re.compile(r'<(?:a|img)\b[^>]*?\s(?:href|src)="([^"]+)"')
_ID = re.compile(r'\bid="([^"]+)"')


def on_post_build(config: MkDocsConfig) -> None:
    """Check all links once the site is written."""
    if broken := broken_links(Path(config.site_dir)):
        raise PluginError("links that lead nowhere:\n" + "\n".join(broken))


def broken_links(site: Path) -> list[str]:
    """The links between the pages of a site that lead to no file, or to no place on a page."""
    texts = {page.resolve(): page.read_text() for page in site.rglob("*.html")}
    places = {page: set(_ID.findall(text)) for page, text in texts.items()}
    broken = []
    for page, text in sorted(texts.items()):
        if page.name == "404.html":  # its links are absolute
            continue
        for link in dict.fromkeys(_LINK.findall(text)):
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = (page.parent / unquote(url.path)).resolve() if url.path else page
            place = unquote(url.fragment)
            known = target.exists() and (
                not place or place.startswith("__") or place in places.get(target, {place})
            )
            if not known:
                broken.append(f"{page.relative_to(site.resolve())}: {link}")
    return broken
