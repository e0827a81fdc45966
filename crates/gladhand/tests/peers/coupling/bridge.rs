//! `gladhand bridge` in front of a server: as words for a client to start, or as a process that listens.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::servers::Server;
use super::{Pair, Way};
use crate::installed::GLADHAND;

/// Adds its process id to the file that the first word names, and becomes the server.
const NOTED: &str = r#"echo $$ >> "$0"; exec "$@""#;

pub(super) struct Bridge {
    /// The words of its command; or the program that runs and the URL at which it listens.
    words: Vec<String>,
    listening: Option<Listening>,
    folder: tempfile::TempDir,
}

impl Bridge {
    pub(super) fn between(pair: &Pair<'_>) -> Self {
        Self::before(pair.server, pair.way)
    }

    pub(super) fn before(server: &Server, way: Way) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_str().expect("paths are UTF-8").to_owned();
        let mut words = vec![GLADHAND.to_owned(), "bridge".to_owned(), "--data-dir".to_owned(), path("data")];
        if way == Way::Http {
            words.extend(["--http".to_owned(), "127.0.0.1:0".to_owned()]);
        }
        words.extend(["--", "sh", "-c", NOTED].map(str::to_owned));
        words.push(path("server"));
        words.extend(server.words.iter().map(|word| word.to_str().expect("paths are UTF-8").to_owned()));
        let listening = (way == Way::Http).then(|| Listening::start(&words));
        Self { words, listening, folder }
    }

    /// Words or a URL, for a client.
    pub(super) fn target(&self) -> Value {
        match &self.listening {
            Some(listening) => json!(listening.url),
            None => json!(self.words),
        }
    }

    /// The same, for a client of ours.
    pub(super) fn words(&self) -> Vec<String> {
        match &self.listening {
            Some(listening) => vec![listening.url.clone()],
            None => self.words.clone(),
        }
    }

    /// The file with the process ids of the server, and of those that were only asked what they speak.
    pub(super) fn server(&self) -> PathBuf {
        self.folder.path().join("server")
    }
}

/// A program of ours that listens, until this is dropped.
pub(crate) struct Listening {
    child: Child,
    pub(crate) url: String,
}

impl Listening {
    pub(crate) fn start(words: &[String]) -> Self {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program is built");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped")).lines().map_while(Result::ok);
        let url = lines.find_map(|line| line.split_once("listening on ").map(|(_, url)| url.trim().to_owned()));
        // A program whose lines are not read would stop at some point.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url: url.expect("it says where it listens") }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
