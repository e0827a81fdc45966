//! Lines for the shell: edited at a terminal, or read from a pipe. A thread reads, because reading blocks.

use std::io::{self, IsTerminal as _};
use std::sync::{Arc, Mutex};

use gladhand_core::sync::Unpoisoned as _;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Helper};
use tokio::sync::{mpsc, oneshot};

use super::completion::Known;
use crate::commands::chat::typed::read_part;
use crate::logging::OpenQuestion;
use crate::terminal::line_history::{ENTRIES, History};

const PROMPT: &str = "› ";

/// What comes from the input.
#[derive(Debug)]
pub(super) enum Input {
    Line(String),
    /// A line that is too long. No part of it is a command.
    TooLong,
    /// Ctrl-C at the prompt.
    Interrupted,
    End,
}

type Answer = oneshot::Sender<Input>;

/// Where lines come from.
#[derive(Debug)]
pub(super) struct Lines {
    wishes: mpsc::Sender<Answer>,
    /// Whether a person types them.
    pub(super) is_person: bool,
    /// The modes of the terminal, which are restored if the editor is left behind.
    modes: Option<Termios>,
}

impl Lines {
    /// Begins to read.
    pub(super) fn start(known: Arc<Mutex<Known>>, history: History) -> io::Result<Self> {
        let is_person = io::stdin().is_terminal() && io::stdout().is_terminal();
        let (wishes, mut wished) = mpsc::channel::<Answer>(1);
        let modes = is_person.then(|| tcgetattr(io::stdin())).transpose()?;
        let mut editor = is_person.then(|| editor(known, &history)).transpose()?;
        // Reading cannot be cancelled, so the thread is not joined: it ends with the process.
        std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
            while let Some(answer) = wished.blocking_recv() {
                let line = match &mut editor {
                    Some(editor) => edited(editor, &history),
                    None => match read_part() {
                        Some(part) if part.is_last => Input::Line(part.text),
                        Some(_) => Input::TooLong,
                        None => Input::End,
                    },
                };
                let _ = answer.send(line);
            }
        })?;
        Ok(Self { wishes, is_person, modes })
    }

    /// The next line. At a terminal, log lines wait meanwhile.
    pub(super) async fn next(&mut self) -> Input {
        let _quiet = self.is_person.then(OpenQuestion::new);
        let (answer, line) = oneshot::channel();
        if self.wishes.send(answer).await.is_err() {
            return Input::End;
        }
        line.await.unwrap_or(Input::End)
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let Some(modes) = &self.modes {
            // After a signal, the editor may still have its own. The terminal may be gone.
            let _ = tcsetattr(io::stdin(), OptionalActions::Drain, modes);
        }
    }
}

type Editor = rustyline::Editor<Completions, MemHistory>;

fn editor(known: Arc<Mutex<Known>>, history: &History) -> io::Result<Editor> {
    let config = Config::builder().max_history_size(ENTRIES).map_err(io::Error::other)?;
    let config = config.completion_type(CompletionType::List).build();
    let kept = MemHistory::with_config(&config);
    let mut editor = Editor::with_history(config, kept).map_err(io::Error::other)?;
    editor.set_helper(Some(Completions(known)));
    for entry in history.load() {
        let _ = editor.add_history_entry(entry);
    }
    Ok(editor)
}

fn edited(editor: &mut Editor, history: &History) -> Input {
    match editor.readline(PROMPT) {
        Ok(line) => {
            if history.keep(&line) {
                let _ = editor.add_history_entry(&line);
            }
            Input::Line(line)
        }
        Err(ReadlineError::Interrupted) => Input::Interrupted,
        Err(ReadlineError::Eof) => Input::End,
        Err(error) => {
            tracing::warn!(%error, "the terminal could not be read");
            Input::End
        }
    }
}

/// Completes words at the prompt.
struct Completions(Arc<Mutex<Known>>);

impl Completer for Completions {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, candidates) = self.0.lock().unpoisoned().complete(line.get(..pos).unwrap_or(line));
        let pair = |candidate: String| {
            // The value of an argument follows at once.
            let end = if candidate.ends_with('=') { "" } else { " " };
            Pair { replacement: format!("{candidate}{end}"), display: candidate }
        };
        Ok((start, candidates.into_iter().map(pair).collect()))
    }
}

impl Helper for Completions {}

impl Hinter for Completions {
    type Hint = String;
}

impl Highlighter for Completions {}

impl Validator for Completions {}
