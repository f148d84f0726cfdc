//! The page: the files of this folder, which are built into the binary.
//!
//! The page is plain ES modules, so it needs no build step. It uses the Kubernetes API only. Its
//! files come from a standalone server below `/ui/`, or from `ballast ui` on the user's machine.
//! docs/ui.md describes it.

use std::io::Write;
use std::sync::OnceLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// A file of the page.
pub struct File {
    /// The path below the page's root. The page itself has the empty path.
    pub path: &'static str,
    pub content_type: &'static str,
    pub content: &'static [u8],
    packed: OnceLock<Packed>,
}

/// The compressed file, built when it is first requested.
pub struct Packed {
    pub gzip: Vec<u8>,
    /// Changes with the content, so browsers can revalidate their copy.
    pub etag: String,
}

impl File {
    const fn new(path: &'static str, content_type: &'static str, content: &'static [u8]) -> File {
        File { path, content_type, content, packed: OnceLock::new() }
    }

    pub fn packed(&self) -> &Packed {
        self.packed.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            let written = encoder.write_all(self.content).and_then(|()| encoder.finish());
            let gzip = written.expect("memory can always be written to");
            let etag = Sha256::digest(self.content)[..12].iter().map(|byte| format!("{byte:02x}")).collect();
            Packed { gzip, etag }
        })
    }
}

/// Returns the file at a path below the page's root.
pub fn find(path: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.path == path)
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

macro_rules! file {
    ($path:literal, $content_type:expr) => {
        File::new($path, $content_type, include_bytes!($path))
    };
}

static FILES: [File; 46] = [
    File::new("", HTML, include_bytes!("index.html")),
    file!("api.js", SCRIPT),
    file!("backlog.js", SCRIPT),
    file!("derive.js", SCRIPT),
    file!("dialog.js", SCRIPT),
    file!("feed.js", SCRIPT),
    file!("frame.js", SCRIPT),
    file!("grid.js", SCRIPT),
    file!("history.js", SCRIPT),
    file!("icon.svg", PICTURE),
    file!("lanes.js", SCRIPT),
    file!("main.js", SCRIPT),
    file!("model.js", SCRIPT),
    file!("parts.js", SCRIPT),
    file!("plan.js", SCRIPT),
    file!("rights.js", SCRIPT),
    file!("route.js", SCRIPT),
    file!("screens.css", CSS),
    file!("screens/capacity.js", SCRIPT),
    file!("screens/evictions.js", SCRIPT),
    file!("screens/fleet.js", SCRIPT),
    file!("screens/health.js", SCRIPT),
    file!("screens/maintenance.js", SCRIPT),
    file!("screens/matrix.js", SCRIPT),
    file!("screens/members.js", SCRIPT),
    file!("screens/outage.js", SCRIPT),
    file!("screens/outcome.js", SCRIPT),
    file!("screens/placements.js", SCRIPT),
    file!("screens/progress.js", SCRIPT),
    file!("screens/rebalance.js", SCRIPT),
    file!("screens/replicas.js", SCRIPT),
    file!("screens/run.js", SCRIPT),
    file!("screens/shape.js", SCRIPT),
    file!("screens/situation.js", SCRIPT),
    file!("screens/start.js", SCRIPT),
    file!("screens/survival.js", SCRIPT),
    file!("screens/timeline.js", SCRIPT),
    file!("screens/whatif.js", SCRIPT),
    file!("screens/workload.js", SCRIPT),
    file!("state.js", SCRIPT),
    file!("style.css", CSS),
    file!("vendor/preact-htm/LICENSE.htm", TEXT),
    file!("vendor/preact-htm/LICENSE.preact", TEXT),
    file!("vendor/preact-htm/standalone.js", SCRIPT),
    file!("words.js", SCRIPT),
    file!("yaml.js", SCRIPT),
];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn scripts_below(folder: &Path, root: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                scripts_below(&path, root, found);
            } else if path.extension().is_some_and(|ending| ending == "js" || ending == "css" || ending == "svg") {
                found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }

    #[test]
    fn every_file_of_the_page_is_built_in() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ui");
        let mut found = Vec::new();
        scripts_below(&root, &root, &mut found);
        found.retain(|path| find(path).is_none());
        assert!(found.is_empty(), "not in FILES: {found:?}");
    }

    #[test]
    fn the_page_has_no_inline_code_and_nothing_from_elsewhere() {
        let page = std::str::from_utf8(find("").unwrap().content).unwrap();
        assert!(!page.contains("<style") && !page.contains("style=") && !page.contains("://"), "{page}");
        for script in page.split("<script").skip(1) {
            assert!(script.split('>').next().unwrap().contains("src="), "inline code: {script}");
        }
    }

    #[test]
    fn the_page_is_small_on_the_wire() {
        let bytes: usize = FILES.iter().map(|file| file.packed().gzip.len()).sum();
        assert!(bytes < 500 * 1024, "{bytes} bytes");
    }
}
