//! The files of the page, which are part of the program.

use bytes::Bytes;

/// A file of the page.
#[derive(Debug)]
pub(super) struct PageFile {
    /// The path below `/console/`. Empty: the page itself.
    path: &'static str,
    /// The media type.
    pub(super) media_type: &'static str,
    body: &'static [u8],
}

impl PageFile {
    /// The file at a path below `/console/`.
    pub(super) fn find(path: &str) -> Option<&'static Self> {
        FILES.iter().find(|file| file.path == path)
    }

    /// The content.
    pub(super) fn body(&self) -> Bytes {
        Bytes::from_static(self.body)
    }
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! file {
    ($path:literal, $name:literal, $media_type:ident) => {
        PageFile { path: $path, media_type: $media_type, body: include_bytes!(concat!("page/", $name)) }
    };
    ($name:literal, $media_type:ident) => {
        file!($name, $name, $media_type)
    };
}

static FILES: [PageFile; 15] = [
    file!("", "index.html", HTML),
    file!("style.css", CSS),
    file!("app.js", SCRIPT),
    file!("dom.js", SCRIPT),
    file!("store.js", SCRIPT),
    file!("live.js", SCRIPT),
    file!("call.js", SCRIPT),
    file!("handshake.js", SCRIPT),
    file!("explorer.js", SCRIPT),
    file!("client.js", SCRIPT),
    file!("form.js", SCRIPT),
    file!("content.js", SCRIPT),
    file!("policy.js", SCRIPT),
    file!("questions.js", SCRIPT),
    file!("try.js", SCRIPT),
];
