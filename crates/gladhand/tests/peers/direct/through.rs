//! `gladhand` between a client and a server: as words for a client to start, or as a process that listens.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::servers::Place;
use super::{FOLDER, Way};
use crate::coupling::bridge::Listening;
use crate::installed::GLADHAND;

/// How long an upstream may take to be listed, on a busy machine.
const LISTED: Duration = Duration::from_secs(60);

pub(super) struct Through {
    words: Vec<String>,
    listening: Option<Listening>,
    /// A separate data folder.
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
        if way != Way::Serve {
            match server {
                Place::Command(command) => words.extend(["--".to_owned()].into_iter().chain(command.iter().cloned())),
                Place::Url(url) => words.push(url.clone()),
            }
        }
        let listening = (way != Way::Bridge).then(|| Listening::start(&words));
        if way == Way::Serve {
            wait_until_listed(&folder.path().join("data"));
        }
        Self { words, listening, _folder: folder }
    }

    /// Words or a URL, for a client.
    pub(super) fn target(&self) -> Value {
        self.listening.as_ref().map_or_else(|| json!(self.words), |listening| json!(listening.url))
    }
}

/// Waits until `serve` has listed its upstream, which it then remembers in its data folder.
///
/// At its first start `serve` listens after two seconds at the latest. A Python server on a busy machine takes longer, and
/// then `initialize` is answered without the server's extensions.
fn wait_until_listed(data: &Path) {
    let deadline = Instant::now() + LISTED;
    while fs::read_dir(data.join("upstreams")).map_or(0, Iterator::count) == 0 {
        assert!(Instant::now() < deadline, "the upstream was not listed within {LISTED:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
