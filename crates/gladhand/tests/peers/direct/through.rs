//! `gladhand` between a client and a server: as words for a client to start, or as a process that listens.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::servers::Place;
use super::{FOLDER, Way};
use crate::coupling::bridge::Listening;
use crate::installed::GLADHAND;

pub(super) struct Through {
    words: Vec<String>,
    listening: Option<Listening>,
    /// What it keeps is kept apart from others.
    _folder: tempfile::TempDir,
}

impl Through {
    pub(super) fn before(server: &Place, way: Way) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_str().expect("paths are UTF-8").to_owned();
        let mut words = vec![GLADHAND.to_owned()];
        if way == Way::Serve {
            let place = match server {
                Place::Command(words) => format!("command = {}", json!(words)),
                Place::Url(url) => format!("url = {}", json!(url)),
            };
            let (roots, toolbox) = (json!([FOLDER]), "[toolbox]\nenabled = false\n");
            let upstream = format!("[upstreams.ordinary]\n{place}\nprefix = \"\"\nclient_roots = {roots}\n{toolbox}");
            fs::write(path("gladhand.toml"), upstream).expect("a configuration can be written");
            words.extend(["serve".to_owned(), "--config".to_owned(), path("gladhand.toml")]);
        } else {
            words.push("bridge".to_owned());
        }
        // Over a network a client may name only those folders as its roots that the operator allows.
        if way == Way::BridgeHttp {
            words.extend(["--client-root", FOLDER].map(str::to_owned));
        }
        words.extend(["--data-dir".to_owned(), path("data")]);
        if way != Way::Bridge {
            words.extend(["--http", "127.0.0.1:0"].map(str::to_owned));
        }
        if way == Way::Serve {
            open_once(&path("gladhand.toml"), &path("data"));
        } else {
            match server {
                Place::Command(command) => words.extend(["--".to_owned()].into_iter().chain(command.iter().cloned())),
                Place::Url(url) => words.push(url.clone()),
            }
        }
        let listening = (way != Way::Bridge).then(|| Listening::start(&words));
        Self { words, listening, _folder: folder }
    }

    /// Words or a URL, for a client.
    pub(super) fn target(&self) -> Value {
        self.listening.as_ref().map_or_else(|| json!(self.words), |listening| json!(listening.url))
    }
}

/// Lets `serve` know its upstream from an earlier run, as it does at every start but the first.
///
/// At the first start `serve` waits two seconds for an upstream. A Python server on a busy machine takes longer, and then
/// `initialize` is answered without the server's extensions.
fn open_once(config: &str, data: &str) {
    let mut tools = Command::new(GLADHAND);
    let listed = tools.arg("tools").env("GLADHAND_CONFIG", config).env("GLADHAND_DATA_DIR", data).output();
    let listed = listed.expect("the program is built");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
}
