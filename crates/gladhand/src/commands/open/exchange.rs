//! The exchange itself: a session that is only opened, and a record of every line.
//!
//! A listener of the session's tap sees each line as it crosses the channel. Nothing else records or shows lines.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gladhand_core::negotiation::{Agreement, Refusal, Side};
use gladhand_core::operations::{Feature, Operation, Reply};
use gladhand_core::wire::lines::MAX_LINE;
use gladhand_dialects::{ClientSetup, Dialect, Stop, absent};
use gladhand_redaction::redact;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::commands::shared::drawing::{describe, label};
use crate::commands::shared::opened_server::Access;
use gladhand_client::http_client::{Endpoint, HttpClient, Style};
use gladhand_client::upstream::transport::Transport;
use gladhand_client::upstream::{HttpEvidence, OpenError, Probe, ProcessEnd, Target, start_process};
use gladhand_process::child::Manner;
use gladhand_process::child_log::ChildLog;
use gladhand_process::surroundings::Surroundings;
use gladhand_session::tap::{Attached, Direction, Tap, TapListener, TappedFrame};

/// How many lines are recorded; a server that floods is not worth more.
const MOST_LINES: usize = 1000;

/// How many bytes of lines are recorded; one line may be the longest that is read.
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// How many lines of the server's stderr are shown when there is no session.
const STDERR_LINES: usize = 20;

/// After the opening the server may still have something to say about it.
const AFTERTHOUGHT: Duration = Duration::from_millis(50);

/// The target of the opening, and its options.
#[derive(Debug)]
pub(in crate::commands) struct Plan<'a> {
    /// As which client.
    pub(in crate::commands) dialect: &'static Dialect,
    /// With which declarations.
    pub(in crate::commands) setup: ClientSetup,
    /// The server.
    pub(in crate::commands) target: Target,
    /// How to get into one that is reached over HTTP.
    pub(in crate::commands) access: &'a Access,
    /// Whether the server's stderr goes into our log.
    pub(in crate::commands) log_stderr: bool,
    /// How long the lists of an open session may take, all together. `None`: they are not requested.
    pub(in crate::commands) lists: Option<Duration>,
    /// Environment variables that the server does not inherit. It must not inherit our tokens: a server that takes its
    /// token from our environment would accept the one that we present.
    pub(in crate::commands) hidden: Vec<String>,
}

/// The record of an opening.
#[derive(Debug)]
pub(in crate::commands) struct Record {
    /// The dialect we opened as.
    pub(in crate::commands) dialect: &'static Dialect,
    /// The version we asked for.
    pub(in crate::commands) version: String,
    /// The server.
    pub(in crate::commands) target: Target,
    /// Every line, in order.
    pub(in crate::commands) messages: Vec<RecordedLine>,
    /// Lines that came after the first thousand and were not kept.
    pub(in crate::commands) unrecorded: usize,
    /// Lines of the server that are no messages: stdout is for messages.
    pub(in crate::commands) no_messages: usize,
    /// Bytes that the server wrote and did not end with a newline.
    pub(in crate::commands) unfinished: usize,
    /// How it ended.
    pub(in crate::commands) verdict: Verdict,
    /// From the start of the process, or the first request, to the verdict.
    pub(in crate::commands) took: Duration,
    /// The last lines of the server's stderr, if there is no session.
    pub(in crate::commands) stderr_tail: Vec<String>,
    /// The dialects that the server may speak, if that could not be found out.
    pub(in crate::commands) possible: Vec<&'static str>,
    /// The lists of the open session, if they were wanted.
    pub(in crate::commands) lists: Vec<ListAnswer>,
}

impl Verdict {
    /// There is no session because of this refusal.
    pub(in crate::commands) fn refused(refusal: Refusal) -> Self {
        Self::Failed(OpenError::refused(refusal))
    }
}

impl Record {
    /// An opening in which nothing was said.
    fn empty(dialect: &'static Dialect, version: &str, target: Target, verdict: Verdict) -> Self {
        Self {
            dialect,
            version: version.to_owned(),
            target,
            messages: Vec::new(),
            unrecorded: 0,
            no_messages: 0,
            unfinished: 0,
            verdict,
            took: Duration::ZERO,
            stderr_tail: Vec::new(),
            possible: Vec::new(),
            lists: Vec::new(),
        }
    }

    /// Whether the server sent a message of ours back.
    pub(in crate::commands) fn repeats_us(&self) -> bool {
        let of = |side| self.messages.iter().filter(move |message| message.from == side).map(|message| &message.text);
        of(Side::Client).any(|ours| of(Side::Server).any(|theirs| theirs == ours))
    }

    /// Whether the server answered any request, by its id.
    pub(in crate::commands) fn has_answer(&self) -> bool {
        let messages = |side| {
            let of_side = self.messages.iter().filter(move |message| message.from == side);
            of_side.filter_map(|message| serde_json::from_str::<Value>(&message.text).ok())
        };
        let is_answer = |message: &Value| message.get("result").or_else(|| message.get("error")).is_some();
        let answered = |id: &Value| messages(Side::Client).any(|request| request.get("id") == Some(id));
        messages(Side::Server).filter(is_answer).any(|answer| answer.get("id").is_some_and(answered))
    }

    /// How the server's process ended, if it ended before there was a session.
    pub(in crate::commands) fn exit(&self) -> Option<&str> {
        match &self.verdict {
            Verdict::Failed(OpenError::Refused { process: Some(end), .. }) => end.status.as_deref(),
            _ => None,
        }
    }

    /// An opening that was interrupted before its first message.
    pub(in crate::commands) fn interrupted(
        dialect: &'static Dialect,
        version: &str,
        target: Target,
        stop: Stop,
    ) -> Self {
        Self::empty(dialect, version, target, Verdict::Interrupted(stop))
    }
}

/// The answer to the request for one list.
#[derive(Debug)]
pub(in crate::commands) struct ListAnswer {
    /// The feature that the list belongs to.
    pub(in crate::commands) feature: Feature,
    /// The names in it, or why there is none.
    pub(in crate::commands) names: Result<Vec<String>, String>,
    /// The time from the request to the last page.
    pub(in crate::commands) took: Duration,
}

/// One line that crossed the channel.
#[derive(Debug)]
pub(in crate::commands) struct RecordedLine {
    /// Who sent it.
    pub(in crate::commands) from: Side,
    /// Whether it is a message of a dialect.
    pub(in crate::commands) is_message: bool,
    /// Its method or type, and its id.
    pub(in crate::commands) label: String,
    /// Its text; bad UTF-8 replaced.
    pub(in crate::commands) text: String,
    /// Since the beginning.
    pub(in crate::commands) at: Duration,
}

/// How the opening ended.
#[derive(Debug)]
pub(in crate::commands) enum Verdict {
    /// A session is open.
    Opened(Arc<Agreement>),
    /// There is none, for this reason.
    Failed(OpenError),
    /// The user pressed Ctrl-C, or a signal stopped the process.
    Interrupted(Stop),
}

/// Opens a session, unless `given_up` ends first and says how. Each line is shown as it crosses the channel. The server
/// is handed back still running.
pub(in crate::commands) async fn open(
    plan: Plan<'_>,
    given_up: impl Future<Output = Verdict>,
    show: &mut dyn FnMut(&RecordedLine),
) -> (Record, Running) {
    let Plan { dialect, setup, target, access, log_stderr, lists, hidden } = plan;
    let record = Record::empty(dialect, &setup.version, target.clone(), Verdict::refused(Refusal::PeerGone));
    let started = Instant::now();
    let (sender, crossed) = mpsc::unbounded_channel();
    let tap = Arc::new(Tap::default());
    let attached = tap.attach(Arc::new(Crossing(sender)));
    let mut recorder = Recorder { record, started, recorded: 0, crossed, show };
    let mut opening = Opening { dialect, tap, log_stderr, hidden, probe: None, evidence: HttpEvidence::default() };
    let verdict = async {
        tokio::select! {
            verdict = opening.run(target, &setup, access) => verdict,
            verdict = given_up => verdict,
        }
    };
    let mut verdict = recorder.during(verdict).await;
    recorder.record.took = started.elapsed();
    if let (Verdict::Opened(agreement), Some(limit)) = (&verdict, lists) {
        opening.list(agreement, limit, &mut recorder).await;
    }
    opening.conclude(&mut verdict, &mut recorder, attached).await;
    recorder.record.verdict = verdict;
    (recorder.record, Running(opening.probe))
}

/// A server that was started, or is being talked to, and has not ended yet.
#[derive(Debug)]
pub(in crate::commands) struct Running(Option<Probe>);

impl Running {
    /// Ends it: politely if there was a session, and at once after Ctrl-C. A future that is dropped ends it at once, too.
    pub(in crate::commands) async fn end(self, record: &Record) {
        let Some(mut probe) = self.0 else { return };
        match record.verdict {
            Verdict::Opened(_) => probe.transport().close(Manner::Polite).await,
            Verdict::Interrupted(_) => probe.transport().kill(),
            _ => probe.transport().close(Manner::Hurried).await,
        }
    }
}

/// A line that crossed the channel: its sender, its bytes and its time.
type CrossedLine = (Side, Vec<u8>, Instant);

/// The features that have a list, in the order in which their lists are requested.
const LISTS: [Feature; 4] = [Feature::Tools, Feature::Resources, Feature::Templates, Feature::Prompts];

fn list_of(feature: Feature) -> Operation<'static> {
    match feature {
        Feature::Resources => Operation::ListResources,
        Feature::Templates => Operation::ListTemplates,
        Feature::Prompts => Operation::ListPrompts,
        _ => Operation::ListTools,
    }
}

/// The names in a list; resources are named by their URI.
fn names_in(reply: &Reply) -> Vec<String> {
    match reply {
        Reply::Tools(tools) => tools.iter().map(|tool| tool.name.clone()).collect(),
        Reply::Resources(resources) => resources.iter().map(|resource| resource.uri.clone()).collect(),
        Reply::Templates(templates) => templates.iter().map(|template| template.uri_template.clone()).collect(),
        Reply::Prompts(prompts) => prompts.iter().map(|prompt| prompt.name.clone()).collect(),
        _ => Vec::new(),
    }
}

/// Hands every line of the session to the recorder. The session yields after each line, so that few lines wait.
struct Crossing(mpsc::UnboundedSender<CrossedLine>);

impl TapListener for Crossing {
    fn frame(&self, frame: &TappedFrame<'_>) {
        let from = match frame.direction {
            Direction::Sent => Side::Client,
            Direction::Received => Side::Server,
        };
        // The recorder is gone once the opening is over.
        let _ = self.0.send((from, frame.bytes.to_vec(), frame.at));
    }
}

/// Records and shows lines.
struct Recorder<'s> {
    record: Record,
    started: Instant,
    /// Bytes of lines that are in the record.
    recorded: usize,
    crossed: mpsc::UnboundedReceiver<CrossedLine>,
    show: &'s mut dyn FnMut(&RecordedLine),
}

impl Recorder<'_> {
    /// Records all lines that cross the channel until some work is done.
    async fn during<R>(&mut self, work: impl Future<Output = R>) -> R {
        tokio::pin!(work);
        let done = loop {
            tokio::select! {
                biased;
                Some(crossed) = self.crossed.recv() => self.note(crossed),
                done = &mut work => break done,
            }
        };
        while let Ok(crossed) = self.crossed.try_recv() {
            self.note(crossed);
        }
        done
    }

    fn note(&mut self, (from, line, at): CrossedLine) {
        let text = redact(String::from_utf8_lossy(&line).trim()).into_owned();
        if text.is_empty() {
            return;
        }
        let at = at.saturating_duration_since(self.started);
        let summary = describe(Some(self.record.dialect), &text);
        let (is_message, label) = (summary.is_some(), label(summary.as_ref()));
        let line = RecordedLine { from, is_message, label, text, at };
        if !line.is_message {
            self.record.no_messages += 1;
        }
        (self.show)(&line);
        if self.record.messages.len() < MOST_LINES && self.recorded + line.text.len() <= MOST_BYTES {
            self.recorded += line.text.len();
            self.record.messages.push(line);
        } else {
            self.record.unrecorded += 1;
        }
    }
}

/// An opening that is under way.
struct Opening {
    dialect: &'static Dialect,
    tap: Arc<Tap>,
    log_stderr: bool,
    hidden: Vec<String>,
    /// The session, once there is a transport for it.
    probe: Option<Probe>,
    /// The facts that HTTP states about the last attempt.
    evidence: HttpEvidence,
}

impl Opening {
    /// Connects to the server and opens a session.
    async fn run(&mut self, target: Target, setup: &ClientSetup, access: &Access) -> Verdict {
        match target {
            Target::Command(command) => match self.start(&command).await {
                Ok(transport) => self.negotiate(transport, setup.clone()).await,
                Err(error) => Verdict::Failed(error),
            },
            Target::Url(url) => {
                let (endpoint, style) = (access.endpoint(url), Style::first(self.dialect, &setup.version));
                let first = self.reach(endpoint.clone(), style, setup).await;
                let older = style.fallback(&self.evidence).filter(|_| !matches!(first, Verdict::Opened(_)));
                let Some(older) = older else { return first };
                // If the older style fails too, the first answer says more.
                let second = self.reach(endpoint, older, setup).await;
                if matches!(second, Verdict::Opened(_)) { second } else { first }
            }
        }
    }

    async fn start(&self, command: &[String]) -> Result<Transport, OpenError> {
        // The log is bounded, never blocks, and lets no secret and no control character pass.
        let log = self.log_stderr.then(|| ChildLog::new("server"));
        start_process(command, &Surroundings::default(), &self.hidden, self.dialect, MAX_LINE, log).await
    }

    /// Opens a session over HTTP in one style.
    async fn reach(&mut self, endpoint: Endpoint, style: Style, setup: &ClientSetup) -> Verdict {
        if let Some(mut earlier) = self.probe.take() {
            earlier.transport().close(Manner::Hurried).await;
        }
        self.evidence = HttpEvidence::default();
        let setup = ClientSetup { exchanges: style.has_exchanges(), ..setup.clone() };
        let verdict = match HttpClient::connect(endpoint, style).await {
            Ok(http) => self.negotiate(Transport::Http(Box::new(http)), setup).await,
            Err(loss) => {
                self.evidence.note_loss(loss);
                Verdict::refused(self.evidence.refusal())
            }
        };
        match self.evidence.outage() {
            Some(outage) if !matches!(verdict, Verdict::Opened(_)) => Verdict::Failed(OpenError::Unreachable(outage)),
            _ => verdict,
        }
    }

    /// Opens a session on a transport.
    async fn negotiate(&mut self, transport: Transport, setup: ClientSetup) -> Verdict {
        let probe = self.probe.insert(Probe::new(self.dialect, setup, transport, Arc::clone(&self.tap)));
        let opened = probe.open().await;
        self.evidence = probe.evidence().clone();
        opened.map_or_else(Verdict::refused, Verdict::Opened)
    }

    /// Requests every list that the agreement permits.
    async fn list(&mut self, agreement: &Agreement, limit: Duration, recorder: &mut Recorder<'_>) {
        let Some(probe) = &mut self.probe else { return };
        let begun = Instant::now();
        let closed: Vec<_> = absent(self.dialect, agreement).into_iter().map(|(feature, _)| feature).collect();
        for feature in LISTS.into_iter().filter(|feature| !closed.contains(feature)) {
            let (started, left) = (Instant::now(), limit.saturating_sub(begun.elapsed()));
            let listed = recorder.during(tokio::time::timeout(left, probe.call(list_of(feature)))).await;
            let is_late = listed.is_err();
            let names = match listed {
                Ok(Ok(reply)) => Ok(names_in(&reply)),
                Ok(Err(failure)) => Err(redact(&failure.message).into_owned()),
                Err(_) => Err(format!("no answer within {} s", limit.as_secs())),
            };
            recorder.record.lists.push(ListAnswer { feature, names, took: started.elapsed() });
            if is_late {
                return;
            }
        }
    }

    /// Collects the results once the opening has ended, with or without success.
    async fn conclude(&mut self, verdict: &mut Verdict, recorder: &mut Recorder<'_>, attached: Attached) {
        let Some(probe) = &mut self.probe else { return };
        recorder.record.unfinished = probe.transport().unfinished();
        let is_gone = matches!(verdict, Verdict::Failed(OpenError::Refused { refusal: Refusal::PeerGone, .. }));
        if !is_gone && matches!(verdict, Verdict::Opened(_) | Verdict::Failed(OpenError::Refused { .. })) {
            // Also for what it has to say on stderr.
            let more = async {
                probe.listen().await;
                std::future::pending().await
            };
            let _: Result<(), _> = recorder.during(tokio::time::timeout(AFTERTHOUGHT, more)).await;
        }
        // The end is not part of the opening, and so not recorded.
        drop(attached);
        match verdict {
            Verdict::Opened(_) => probe.send_closing_message(),
            // Ctrl-C does not wait for anything.
            Verdict::Interrupted(_) => {}
            _ => {
                let (status, stderr_tail) = probe.transport().ending(STDERR_LINES).await;
                if let (true, Verdict::Failed(OpenError::Refused { process, .. })) = (is_gone, &mut *verdict) {
                    // Over HTTP there is no process.
                    *process = status.map(|status| ProcessEnd::new(Some(status), stderr_tail.clone()));
                }
                recorder.record.stderr_tail = stderr_tail;
            }
        }
    }
}
