//! The live page at `/`, which reads `/state.json` and `/keys.json`. Its files are in `page/`, without a build step.
//!
//! A browser may run and load only what this server sends as a file. So a key or a client's name that looks like a script
//! can't become one, even if the page inserted it wrongly.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct File {
    pub path: &'static str,
    pub content_type: &'static str,
    pub contents: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

/// A file below `page/`.
macro_rules! file {
    ($path:literal, $name:literal, $content_type:expr) => {
        File {
            path: $path,
            content_type: $content_type,
            contents: include_str!(concat!("../page/", $name)),
        }
    };
}

/// All files.
pub static FILES: [File; 9] = [
    file!("/", "index.html", HTML),
    file!("/page/style.css", "style.css", CSS),
    file!("/page/icon.svg", "icon.svg", "image/svg+xml"),
    file!("/page/main.js", "main.js", JS),
    file!("/page/rates.js", "rates.js", JS),
    file!("/page/chart.js", "chart.js", JS),
    file!("/page/machine.js", "machine.js", JS),
    file!("/page/sections.js", "sections.js", JS),
    file!("/page/text.js", "text.js", JS),
];

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub fn find(path: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.path == path)
}

/// Restricts what a browser does with the page.
pub fn protect(headers: &mut HeaderMap) {
    let mut set = |name: HeaderName, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_SECURITY_POLICY, POLICY);
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::X_FRAME_OPTIONS, "DENY");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_small_and_complete() {
        assert!(FILES.iter().map(|file| file.contents.len()).sum::<usize>() < 100_000);
        let found = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/page"));
        assert_eq!(found.expect("the folder").count(), FILES.len(), "all files are served");
    }

    /// The policy forbids these, so they would do nothing.
    #[test]
    fn page_has_no_inline_code_or_style() {
        for File { path, contents, .. } in &FILES {
            for forbidden in
                [" style=", " onclick=", " onload=", "innerHTML", "eval(", "http://", "https://"]
            {
                // The namespace of SVG is a name, not an address.
                let text = contents.replace("http://www.w3.org/2000/svg", "");
                assert!(!text.contains(forbidden), "{path}: {forbidden}");
            }
        }
    }
}
