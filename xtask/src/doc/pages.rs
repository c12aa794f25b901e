//! Finds dead links in the rendered pages of the book.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

use crate::tidy::resolve;

/// The links and the anchors of a rendered HTML page.
#[derive(Debug, Default)]
pub(super) struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Page {
    /// Collects the values of the attributes `href`, `src` and `id` in `html`. A text search is
    /// sufficient, because mdBook quotes the value of every attribute and escapes `"` in text.
    pub(super) fn parse(html: &str) -> Self {
        let values = |name: &str| {
            let start = format!(" {name}=\"");
            let values = html.split(start.as_str()).skip(1).filter_map(|rest| rest.split('"').next());
            values.map(|value| value.replace("&amp;", "&")).collect::<Vec<_>>()
        };
        let links = values("href").into_iter().chain(values("src")).collect();
        Self { links, anchors: values("id").into_iter().collect() }
    }
}

/// Reads all HTML pages in `folder` and its subfolders. The keys of the returned map are the paths
/// of the pages, relative to `folder`.
pub(super) fn read_pages(folder: &Path) -> io::Result<BTreeMap<String, Page>> {
    let mut pages = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(place) = waiting.pop() {
        for entry in fs::read_dir(place)? {
            let path = entry?.path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "html") {
                let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
                pages.insert(name, Page::parse(&fs::read_to_string(&path)?));
            }
        }
    }
    Ok(pages)
}

/// Returns each link in `pages` whose page, file or heading does not exist, in the form `page:
/// link`.
pub(super) fn dead_links(pages: &BTreeMap<String, Page>, is_file: impl Fn(&str) -> bool) -> Vec<String> {
    let mut dead = BTreeSet::new();
    for (name, page) in pages {
        // The links in `404.html` are relative to the URL that was requested, so they cannot be
        // checked.
        for link in page.links.iter().filter(|_| name != "404.html") {
            if !link_exists(name, link, pages, &is_file) {
                dead.insert(format!("{name}: {link}"));
            }
        }
    }
    dead.into_iter().collect()
}

fn link_exists(
    name: &str,
    link: &str,
    pages: &BTreeMap<String, Page>,
    is_file: impl Fn(&str) -> bool,
) -> bool {
    let (address, anchor) = link.split_once('#').unwrap_or((link, ""));
    // Links to other websites are not checked.
    if address.contains(':') || address.starts_with("//") {
        return true;
    }
    let target = if address.is_empty() { Some(name.to_owned()) } else { resolve(name, address) };
    let Some(target) = target else { return false };
    match pages.get(&target) {
        Some(page) => anchor.is_empty() || page.anchors.contains(anchor),
        None => is_file(&target),
    }
}
