//! The person at the terminal, as the host of a session: sees progress, reads log lines, answers questions.
//!
//! Everything said here goes to stderr, so that stdout carries results and nothing else. Questions are asked one at a
//! time; where there is no terminal they are answered from the form's own defaults, or cancelled.

use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use gladhand_accord::Capability;
use gladhand_operations::{Answered, Failure, FailureKind, Level, Log, Notice, Progress, Question, QuestionKind};
use gladhand_wire::{Members, RawValue, json};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::Semaphore;

use super::form;
use crate::commands::plain::{plain, plain_lines};
use crate::commands::sign_in::is_anybody_there;
use crate::upstream::Host;

/// The person who typed the command.
#[derive(Debug)]
pub(in crate::commands) struct Person {
    /// Whether somebody is there to be asked.
    is_there: bool,
    /// From which level on log lines are shown.
    level: Level,
    roots: Vec<PathBuf>,
    bar: Mutex<Option<ProgressBar>>,
    /// Held by the question that is being asked.
    turn: Arc<Semaphore>,
}

impl Person {
    /// Whoever sits at the terminal; who works in these folders.
    pub(in crate::commands) fn new(roots: Vec<PathBuf>, verbosity: u8) -> Self {
        let level = match verbosity {
            0 => Level::Warning,
            1 => Level::Info,
            _ => Level::Debug,
        };
        Self { is_there: is_anybody_there(), level, roots, bar: Mutex::default(), turn: Arc::new(Semaphore::new(1)) }
    }

    /// What can be asked of them, in the words of MCP.
    pub(in crate::commands) fn provides(&self) -> Vec<(Capability, Option<Box<RawValue>>)> {
        let mut names = vec!["elicitation", "elicitation.form"];
        if self.is_there {
            names.push("elicitation.url");
        }
        if !self.roots.is_empty() {
            names.push("roots");
        }
        names.into_iter().map(|name| (Capability::named(name), None)).collect()
    }

    /// From which level on they want to see log lines.
    pub(in crate::commands) fn level(&self) -> Level {
        self.level
    }

    /// Takes the progress bar off the screen.
    pub(in crate::commands) fn finish(&self) {
        if let Some(bar) = self.bar.lock().unwrap_or_else(PoisonError::into_inner).take() {
            bar.finish_and_clear();
        }
    }

    fn progress(&self, progress: &Progress) {
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = bar.get_or_insert_with(|| {
            // Draws nothing where stderr is no terminal.
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        // The bar counts in whole steps; what is counted in fractions is shown in thousandths.
        let total = progress.total.filter(|total| total.is_finite() && *total > 0.0);
        let scale = if total.is_some_and(|total| total < 10.0) { 1000.0 } else { 1.0 };
        if let Some(total) = total {
            bar.set_length((total * scale) as u64);
        }
        bar.set_position((progress.progress * scale) as u64);
        if let Some(message) = &progress.message {
            bar.set_message(plain(message));
        }
    }

    /// Says something without tearing the progress bar.
    fn say(&self, text: &str) {
        let bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        let write = || {
            // Nobody reads stderr: then there is nobody to tell.
            let _ = writeln!(anstream::stderr(), "{text}");
        };
        match &*bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    fn log(&self, log: &Log) {
        if log.level >= self.level {
            let data = json::string(&log.data).unwrap_or_else(|| log.data.get().into());
            let logger = log.logger.as_deref().map(|logger| format!(" {}", plain(logger))).unwrap_or_default();
            self.say(&format!("{}{logger}: {}", log.level.word(), plain_lines(&data)));
        }
    }

    fn roots(&self) -> Answered {
        let root = |path: &PathBuf| {
            let uri = url::Url::from_directory_path(path).ok()?;
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            Some(serde_json::json!({"uri": uri.as_str().trim_end_matches('/'), "name": name}))
        };
        let roots: Vec<_> = self.roots.iter().filter_map(root).collect();
        Ok(json::to_raw(&serde_json::json!({"roots": roots})))
    }

    /// Asks the person, or answers for nobody.
    fn elicit(&self, question: Question) -> BoxFuture<'static, Answered> {
        let params = Members::of(&question.params).unwrap_or_default();
        let message = plain_lines(&params.str("message").unwrap_or_default());
        let url = params.str("url").map(|url| plain(&url));
        let schema = params.raw("requestedSchema").map_or_else(|| json::raw("{}".to_owned()), ToOwned::to_owned);
        if !self.is_there {
            let answer = form::defaults(&schema).filter(|_| url.is_none());
            if answer.is_none() {
                self.say(&format!("the server asks, and nobody is there to answer: {message}"));
            }
            let answer = answer.unwrap_or_else(|| serde_json::json!({"action": "cancel"}));
            return Box::pin(std::future::ready(Ok(json::to_raw(&answer))));
        }
        self.finish();
        let turn = Arc::clone(&self.turn);
        Box::pin(async move {
            let gone = |_| Failure::new(FailureKind::Unanswered, "nobody answers any more");
            let _turn = turn.acquire_owned().await.map_err(gone)?;
            let asked = tokio::task::spawn_blocking(move || match url {
                Some(url) => visit(&message, &url),
                None => {
                    let _ =
                        writeln!(anstream::stderr(), "\nThe server asks: {message}\n  ({} declines)", form::DECLINE);
                    form::fill_in(&schema, ask)
                }
            });
            let answer = asked.await.map_err(|_| Failure::new(FailureKind::Unanswered, "the question was dropped"))?;
            Ok(json::to_raw(&answer))
        })
    }
}

impl Host for Person {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answered> {
        match question.kind {
            QuestionKind::Elicit => self.elicit(question),
            QuestionKind::Roots => Box::pin(std::future::ready(self.roots())),
            // Never declared: there is no model here.
            QuestionKind::Sample => Box::pin(std::future::ready(Err(Failure::missing_capability("sampling")))),
        }
    }

    fn notice(&self, notice: Notice) {
        match notice {
            Notice::Progress(_, progress) => self.progress(&progress),
            Notice::Log(_, log) => self.log(&log),
            _ => {}
        }
    }
}

/// Shows a page to visit. It is shown whole, because whoever opens it should see where it leads.
fn visit(message: &str, url: &str) -> serde_json::Value {
    let _ = writeln!(anstream::stderr(), "\nThe server asks: {message}\n  Open this page: {url}");
    match ask(&format!("  Enter when you are done there, {} to decline: ", form::DECLINE)) {
        None => serde_json::json!({"action": "cancel"}),
        Some(line) if line.trim() == form::DECLINE => serde_json::json!({"action": "decline"}),
        Some(_) => serde_json::json!({"action": "accept"}),
    }
}

/// Shows a prompt and reads a line; none at the end of input.
fn ask(prompt: &str) -> Option<String> {
    let mut stderr = anstream::stderr();
    let _ = write!(stderr, "{prompt}").and_then(|()| stderr.flush());
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line).unwrap_or(0);
    if read == 0 {
        // What comes next does not belong behind the prompt.
        let _ = writeln!(stderr);
    }
    (read > 0).then_some(line)
}
