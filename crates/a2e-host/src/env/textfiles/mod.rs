//! A folder of notes and a task: find the key in one of the notes, and write it down or rename the note.
//!
//! Each episode has its own folder, made from the seed and removed with the episode. Actions cannot reach outside it.
//! All files are small, so synchronous file access does not block for long.

mod folder;

use std::path::PathBuf;

use async_trait::async_trait;
use gladhand_core::operations::Failure;
use serde_json::{Value, json};

use self::folder::Folder;
use super::environment::{
    Environment, Episode, Object, Observation, Reset, Space, option, reset_denied, unknown_action, word,
};
use super::pushes::Pushes;
use super::random::Random;

/// Default and maximum number of steps in an episode.
const DEFAULT_STEPS: u64 = 50;
const MAX_STEPS: u64 = 1000;

/// Default and maximum number of notes.
const DEFAULT_NOTES: u64 = 8;
const MAX_NOTES: u64 = 50;

/// The reward of a step, and of a step that fails.
const STEP: f64 = -0.01;
const MISTAKE: f64 = -0.05;

const ROOMS: [&str; 4] = ["attic", "cellar", "kitchen", "study"];
const THINGS: [&str; 8] = ["apple", "barrel", "candle", "drum", "engine", "feather", "globe", "hammer"];

/// A folder of notes and a task. Options: `task` (`collect`, `rename`), `files`, `max_steps`.
#[derive(Debug, Clone)]
pub struct Textfiles {
    /// Where the folders are created.
    pub within: PathBuf,
}

impl Default for Textfiles {
    fn default() -> Self {
        Self { within: std::env::temp_dir() }
    }
}

/// The task of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    /// Write the key to a file.
    Collect,
    /// Rename the note that contains the key.
    Rename,
}

#[async_trait]
impl Environment for Textfiles {
    fn name(&self) -> &str {
        "textfiles"
    }

    fn space(&self) -> Space {
        let payload = |members: &[&str]| {
            let properties: Object =
                members.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
            json!({"type": "object", "properties": properties, "required": members})
        };
        let action = |word: &str, members: &[&str]| {
            let properties = json!({"action_type": {"const": word}, "payload": payload(members)});
            json!({"type": "object", "properties": properties, "required": ["action_type", "payload"]})
        };
        let strings = json!({"type": "array", "items": {"type": "string"}});
        Space {
            actions: json!({"oneOf": [
                action("list", &[]),
                action("read", &["path"]),
                action("find", &["text"]),
                action("write", &["path", "text"]),
                action("rename", &["from", "to"]),
            ]}),
            states: json!({"type": "object", "properties": {
                "task": {"type": "string", "enum": ["collect", "rename"]},
                "goal": {"type": "string"},
                "files": strings,
                "last": {"type": ["object", "null"]},
                "steps_left": {"type": "integer"},
            }}),
        }
    }

    async fn reset(&self, reset: Reset, _: Pushes) -> Result<(Box<dyn Episode>, Observation), Failure> {
        let steps_left = option(&reset.options, "max_steps", DEFAULT_STEPS, 1..=MAX_STEPS)?;
        let notes = option(&reset.options, "files", DEFAULT_NOTES, 1..=MAX_NOTES)?;
        let mut random = Random::of(reset.seed);
        let task = match reset.options.get("task").filter(|task| !task.is_null()) {
            None => [Task::Collect, Task::Rename][usize::from(random.below(2) == 1)],
            Some(Value::String(word)) if word == "collect" => Task::Collect,
            Some(Value::String(word)) if word == "rename" => Task::Rename,
            Some(_) => return Err(reset_denied("option \"task\" must be \"collect\" or \"rename\"")),
        };
        let cannot = |error: std::io::Error| reset_denied(format!("could not create the folder: {error}"));
        let folder = Folder::make(&self.within).map_err(cannot)?;
        let metadata = [("seed".to_owned(), json!(random.seed()))].into_iter().collect();
        let (key, keeper) = fill(&folder, notes, &mut random).map_err(cannot)?;
        let errand = Errand { folder, task, key, keeper, steps_left, metadata };
        let seen = errand.seen(Value::Null, 0.0);
        Ok((Box::new(errand), seen))
    }
}

/// Writes the notes. Returns the key and the path of the note that contains it.
fn fill(folder: &Folder, notes: u64, random: &mut Random) -> std::io::Result<(String, String)> {
    let keeper = random.below(notes);
    let key = format!("{:08x}", random.below(1 << 32));
    let mut kept_in = String::new();
    for number in 0..notes {
        let room = ROOMS[random.below(ROOMS.len() as u64) as usize];
        let path = format!("{room}/note-{number}.txt");
        let mut text = String::new();
        for _ in 0..=random.below(4) {
            let thing = THINGS[random.below(THINGS.len() as u64) as usize];
            text.push_str(&format!("There is a {thing} in the {room}.\n"));
        }
        if number == keeper {
            text.push_str(&format!("key: {key}\n"));
            kept_in.clone_from(&path);
        }
        folder.put(&path, &text)?;
    }
    Ok((key, kept_in))
}

#[derive(Debug)]
struct Errand {
    folder: Folder,
    task: Task,
    key: String,
    /// The path of the note that contained the key at the start.
    keeper: String,
    steps_left: u64,
    metadata: Object,
}

#[async_trait]
impl Episode for Errand {
    async fn step(&mut self, action: &Object) -> Result<Observation, Failure> {
        let word = word(action).ok_or_else(|| unknown_action("an action has an action_type"))?;
        let empty = Object::new();
        let payload = action.get("payload").and_then(Value::as_object).unwrap_or(&empty);
        let text =
            |name: &str| payload.get(name).and_then(Value::as_str).ok_or_else(|| format!("payload has no {name}"));
        let done = match word {
            "list" => Ok(json!(self.folder.files())),
            "read" => text("path").and_then(|path| self.folder.read(path)).map(Value::String),
            "find" => text("text").map(|text| json!(self.folder.holding(text))),
            "write" => text("path").and_then(|path| self.folder.write(path, text("text")?)).map(Value::from),
            "rename" => text("from").and_then(|from| self.folder.rename(from, text("to")?)).map(|()| Value::Null),
            other => return Err(unknown_action(format!("unknown action: {other:?}"))),
        };
        self.steps_left = self.steps_left.saturating_sub(1);
        let reward = if done.is_ok() { STEP } else { MISTAKE };
        let last = match done {
            Ok(result) => json!({"action_type": word, "ok": true, "result": result}),
            Err(why) => json!({"action_type": word, "ok": false, "error": why}),
        };
        Ok(self.seen(last, reward))
    }

    async fn render(&mut self, mode: &str) -> Result<Option<Value>, Failure> {
        let text = || format!("{}\n\n{}\n", self.goal(), self.folder.files().join("\n"));
        Ok((mode == "text").then(|| Value::String(text())))
    }

    async fn plan(&mut self, _: Option<&Object>) -> Result<Vec<Value>, Failure> {
        let action = |word: &str, payload: Value| json!({"action_type": word, "payload": payload});
        Ok(match self.task {
            _ if self.is_done() => Vec::new(),
            Task::Collect => vec![
                action("find", json!({"text": "key:"})),
                action("read", json!({"path": self.keeper})),
                action("write", json!({"path": "answer.txt", "text": self.key})),
            ],
            Task::Rename => vec![
                action("find", json!({"text": "key:"})),
                action("rename", json!({"from": self.keeper, "to": "found.txt"})),
            ],
        })
    }
}

impl Errand {
    fn goal(&self) -> &'static str {
        match self.task {
            Task::Collect => "One of the notes has a line \"key: …\". Write the key, and nothing else, to answer.txt.",
            Task::Rename => "One of the notes has a line \"key: …\". Rename that note to found.txt.",
        }
    }

    fn is_done(&self) -> bool {
        match self.task {
            Task::Collect => self.folder.read("answer.txt").is_ok_and(|text| text.trim() == self.key),
            Task::Rename => {
                let line = format!("key: {}\n", self.key);
                self.folder.read("found.txt").is_ok_and(|text| text.ends_with(&line))
                    && self.folder.read(&self.keeper).is_err()
            }
        }
    }

    fn seen(&self, last: Value, reward: f64) -> Observation {
        let is_done = self.is_done();
        let truncated = !is_done && self.steps_left == 0;
        let task = if self.task == Task::Collect { "collect" } else { "rename" };
        let state = [
            ("task", json!(task)),
            ("goal", json!(self.goal())),
            ("files", json!(self.folder.files())),
            ("last", last),
            ("steps_left", json!(self.steps_left)),
        ];
        let state = state.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let reward = if is_done { 1.0 } else { reward };
        let metadata = self.metadata.clone();
        Observation { state, reward, done: is_done || truncated, truncated, metadata, ..Observation::default() }
    }
}
