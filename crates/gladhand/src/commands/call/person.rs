//! The person at the terminal, as the host of a session: sees progress, reads log lines, answers questions.
//!
//! Everything said here goes to stderr, so that stdout carries results and nothing else. Questions are asked one at a
//! time; where there is no terminal they are answered from the form's own defaults, or cancelled.

use std::convert::Infallible;
use std::future::Future;
use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use gladhand_core::negotiation::Capability;
use gladhand_core::operations::{Answered, Failure, FailureKind, Level, Log, Notice, Progress, Question, QuestionKind};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::{Members, RawValue, json};
use gladhand_redaction::redact;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::Semaphore;

use super::form;
use crate::commands::shared::sign_in::is_interactive;
use crate::logging::{self, OpenQuestion};
use crate::terminal::layout;
use crate::terminal::text::{plain, quoted};
use gladhand_client::upstream::UpstreamEvents;

/// How long a server may take before the status line says what is waited for.
const MOMENT: Duration = Duration::from_millis(300);

/// An upstream of our own server that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(in crate::commands) struct UnavailableUpstream {
    pub(in crate::commands) name: String,
    /// Why.
    pub(in crate::commands) message: String,
}

/// The person who typed the command.
#[derive(Debug)]
pub(in crate::commands) struct Person {
    /// Whether a user is at the terminal to answer questions.
    is_there: bool,
    /// From which level on log lines are shown.
    level: Level,
    roots: Vec<PathBuf>,
    status: Arc<Mutex<Status>>,
    /// The upstreams of our own server.
    upstreams: Vec<String>,
    /// Those of them that cannot be used. The user is told of each once.
    unavailable: Mutex<Vec<UnavailableUpstream>>,
    /// Log lines that are held back, while they are.
    held: Mutex<Option<Vec<String>>>,
    /// Held by the question that is being asked.
    turn: Arc<Semaphore>,
}

impl Person {
    /// The user at the terminal, who works in these folders.
    pub(in crate::commands) fn new(roots: Vec<PathBuf>, verbosity: u8) -> Self {
        let level = match verbosity {
            0 => Level::Warning,
            1 => Level::Info,
            _ => Level::Debug,
        };
        let (status, held, turn) = (Arc::default(), Mutex::default(), Arc::new(Semaphore::new(1)));
        let (upstreams, unavailable) = (Vec::new(), Mutex::default());
        Self { is_there: is_interactive(), level, roots, status, upstreams, unavailable, held, turn }
    }

    /// The same person, who asks our own server with these upstreams and knows already that some cannot be used. Log
    /// lines are held back, because the outcome may make them superfluous.
    pub(in crate::commands) fn knowing(self, upstreams: Vec<String>, unavailable: Vec<UnavailableUpstream>) -> Self {
        Self { upstreams, unavailable: Mutex::new(unavailable), held: Mutex::new(Some(Vec::new())), ..self }
    }

    /// The upstreams of our own server that cannot be used, as far as it has said.
    pub(in crate::commands) fn unavailable(&self) -> Vec<UnavailableUpstream> {
        self.unavailable.lock().unpoisoned().clone()
    }

    /// The client capabilities that the user can serve, as MCP names them.
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

    /// Takes the status line off the screen.
    fn finish(&self) {
        self.status.lock().unpoisoned().set(None);
    }

    /// Waits for a server. On a terminal, a line says for what if it takes longer than a moment; the line is gone when the
    /// server has answered.
    pub(in crate::commands) async fn waiting<T>(&self, what: &str, answer: impl Future<Output = T>) -> T {
        let _line = StatusGuard(self);
        tokio::select! {
            biased;
            answer = answer => answer,
            never = self.status(what) => match never {},
        }
    }

    async fn status(&self, what: &str) -> Infallible {
        tokio::time::sleep(MOMENT).await;
        {
            let mut status = self.status.lock().unpoisoned();
            // Progress that the server reports says more.
            if status.text.is_none() {
                status.set(Some(format!("{} …", plain(&redact(what)))));
            }
        }
        std::future::pending().await
    }

    /// Ends the holding back of log lines, and returns them.
    pub(in crate::commands) fn release_logs(&self) -> Vec<String> {
        self.held.lock().unpoisoned().take().unwrap_or_default()
    }

    fn progress(&self, progress: &Progress) {
        self.status.lock().unpoisoned().set(Some(drawn(progress)));
    }

    /// Says something without tearing the status line.
    pub(in crate::commands) fn say(&self, text: &str) {
        let status = self.status.lock().unpoisoned();
        let write = || {
            logging::say(
                tracing::Level::INFO,
                &anstream::adapter::strip_str(text).to_string(),
                &[],
                &format!("{text}\n"),
            );
        };
        match &status.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    fn log(&self, log: &Log) {
        if log.level >= self.level {
            let data = json::string(&log.data).unwrap_or_else(|| log.data.get().into());
            let outage = self.outage(&data);
            if let Some(outage) = &outage {
                let mut unavailable = self.unavailable.lock().unpoisoned();
                if unavailable.iter().any(|known| known.name == outage.name) {
                    return;
                }
                unavailable.push(outage.clone());
            }
            // An outage names its upstream.
            let logger = log.logger.as_deref().filter(|_| outage.is_none());
            let logger = logger.map(|logger| format!(" {}", plain(&redact(logger)))).unwrap_or_default();
            let line = format!("{}{logger}: {}", log.level.word(), quoted(&data));
            if let Some(held) = &mut *self.held.lock().unpoisoned() {
                held.push(line);
                return;
            }
            self.say(&line);
        }
    }

    /// The outage that a log line of our own server is about. It begins with the name of the upstream, or with the
    /// request that failed.
    fn outage(&self, line: &str) -> Option<UnavailableUpstream> {
        let (_, named) = line.split_once("upstream ").filter(|(before, _)| {
            matches!(*before, "" | "tools/list of " | "resources/list of " | "prompts/list of ")
        })?;
        let is_named =
            |name: &&String| named.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with([':', ' ']));
        let name = self.upstreams.iter().find(is_named)?.clone();
        Some(UnavailableUpstream { name, message: line.to_owned() })
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

    /// Asks the user, or answers with defaults if no user is present.
    fn elicit(&self, question: Question) -> BoxFuture<'static, Answered> {
        let params = Members::of(&question.params).unwrap_or_default();
        let message = quoted(&params.str("message").unwrap_or_default());
        let url = params.str("url").map(|url| plain(&url));
        let schema = params.raw("requestedSchema").map_or_else(|| json::raw("{}".to_owned()), ToOwned::to_owned);
        if !self.is_there {
            let answer = form::defaults(&schema).filter(|_| url.is_none());
            if answer.is_none() {
                self.say(&format!("the server asks a question, and there is no terminal to answer it: {message}"));
            }
            let answer = answer.unwrap_or_else(|| serde_json::json!({"action": "cancel"}));
            return Box::pin(std::future::ready(Ok(json::to_raw(&answer))));
        }
        let asking = Asking::new(&self.status);
        let turn = Arc::clone(&self.turn);
        Box::pin(async move {
            let _asking = asking;
            let gone = |_| Failure::new(FailureKind::Unanswered, "the question was abandoned");
            let _turn = turn.acquire_owned().await.map_err(gone)?;
            let asked = tokio::task::spawn_blocking(move || match url {
                Some(url) => visit(&message, &url),
                None => {
                    tell(&format!("\nThe server asks: {message}\n  ({} declines)", form::DECLINE));
                    form::fill_in(&schema, layout::message_width(), ask)
                }
            });
            let answer = asked.await.map_err(|_| Failure::new(FailureKind::Unanswered, "the question was dropped"))?;
            Ok(json::to_raw(&answer))
        })
    }
}

impl UpstreamEvents for Person {
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

/// Takes the status line off the screen when it is dropped.
struct StatusGuard<'p>(&'p Person);

impl Drop for StatusGuard<'_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// The line that says what is waited for, or how far the server is. It is not shown while a question is open.
#[derive(Debug, Default)]
struct Status {
    text: Option<String>,
    /// The line on the screen.
    bar: Option<ProgressBar>,
    /// How many questions are open.
    questions: usize,
}

impl Status {
    fn set(&mut self, text: Option<String>) {
        self.text = text;
        self.draw();
    }

    fn draw(&mut self) {
        match self.text.as_ref().filter(|_| self.questions == 0) {
            Some(text) => self.bar.get_or_insert_with(bar_on_stderr).set_message(text.clone()),
            None => {
                if let Some(bar) = self.bar.take() {
                    bar.finish_and_clear();
                }
            }
        }
    }
}

/// A question that is open, or waits for its turn. Log lines and the status line come back when it is dropped.
struct Asking {
    status: Arc<Mutex<Status>>,
    lines: Option<OpenQuestion>,
}

impl Asking {
    fn new(status: &Arc<Mutex<Status>>) -> Self {
        let mut shown = status.lock().unpoisoned();
        shown.questions += 1;
        shown.draw();
        Self { status: Arc::clone(status), lines: Some(OpenQuestion::new()) }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut shown = self.status.lock().unpoisoned();
        // Before the status line, which is the last on the screen.
        self.lines = None;
        shown.questions -= 1;
        shown.draw();
    }
}

/// A line that is drawn again in place. Nothing is drawn where stderr is no terminal.
fn bar_on_stderr() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    let style = ProgressStyle::with_template("{wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// How many cells a progress bar has.
const CELLS: usize = 30;

/// A progress report as one line: a bar where a total is known, the numbers as they were sent, the message.
fn drawn(progress: &Progress) -> String {
    let message = progress.message.as_deref().map(|message| plain(&redact(message))).unwrap_or_default();
    let line = match progress.total.filter(|total| total.is_finite() && *total > 0.0) {
        Some(total) => {
            let part = (progress.progress / total).clamp(0.0, 1.0);
            let full = (part * CELLS as f64) as usize;
            let bar = "█".repeat(full) + &"░".repeat(CELLS - full);
            format!("{bar} {}/{} {message}", number(progress.progress), number(total))
        }
        None => format!("{} {message}", number(progress.progress)),
    };
    line.trim_end().to_owned()
}

/// A number as a person writes it, with at most three decimals.
fn number(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Shows a page to visit. The whole URL is shown, so that the user sees where it leads before opening it.
fn visit(message: &str, url: &str) -> serde_json::Value {
    tell(&format!("\nThe server asks: {message}\n  Open this page: {url}"));
    match ask(&format!("  Enter when you are done there, {} to decline: ", form::DECLINE)) {
        None => serde_json::json!({"action": "cancel"}),
        Some(line) if line.trim() == form::DECLINE => serde_json::json!({"action": "decline"}),
        Some(_) => serde_json::json!({"action": "accept"}),
    }
}

/// Writes to the terminal, broken between words. A URL stays whole.
fn tell(text: &str) {
    // It fails only where stderr is closed.
    let _ = write!(anstream::stderr(), "{}", layout::message(text, layout::message_width()));
}

/// Shows a prompt and reads a line; none at the end of input.
fn ask(prompt: &str) -> Option<String> {
    let mut stderr = anstream::stderr();
    let _ = write!(stderr, "{prompt}").and_then(|()| stderr.flush());
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line).unwrap_or(0);
    if read == 0 {
        // The next output starts on a new line.
        let _ = writeln!(stderr);
    }
    (read > 0).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unusable_upstream_is_reported_once() {
        let known =
            UnavailableUpstream { name: "unset".to_owned(), message: "upstream unset is not available".to_owned() };
        let person =
            Person::new(Vec::new(), 0).knowing(["quiet", "unset"].map(str::to_owned).into(), vec![known.clone()]);
        let late = "upstream quiet: it has not opened yet (for 15 s)";
        let lines = [Some("quiet"), None].map(|logger| (logger, late.to_owned()));
        let others = [(None, known.message.clone()), (Some("db"), "upstream other: hello".to_owned())];
        for (logger, line) in lines.into_iter().chain(others) {
            person.log(&Log::new(Level::Warning, logger.map(str::to_owned), json::to_raw(&line)));
        }
        let said = person.release_logs();
        assert_eq!(said, [format!("warning: {late}"), "warning db: upstream other: hello".to_owned()]);
        let quiet = UnavailableUpstream { name: "quiet".to_owned(), message: late.to_owned() };
        assert_eq!(person.unavailable(), [known, quiet]);
    }

    #[test]
    fn progress_shows_the_numbers_that_the_server_sent() {
        let report = |progress, total, message: &str| {
            drawn(&Progress { progress, total, message: (!message.is_empty()).then(|| message.to_owned()) })
        };
        assert_eq!(report(2.0, Some(4.0), ""), format!("{}{} 2/4", "█".repeat(15), "░".repeat(15)));
        assert_eq!(report(0.25, Some(1.0), "reading"), format!("{}{} 0.25/1 reading", "█".repeat(7), "░".repeat(23)));
        assert_eq!(report(2000.0, Some(4000.0), ""), format!("{}{} 2000/4000", "█".repeat(15), "░".repeat(15)));
        assert_eq!(report(1.0 / 3.0, None, "a\u{1b}b"), "0.333 a\\u{1b}b");
        assert_eq!(report(9.0, Some(4.0), ""), format!("{} 9/4", "█".repeat(30)));
        assert_eq!(report(f64::NAN, Some(f64::NAN), ""), "NaN");
    }
}
