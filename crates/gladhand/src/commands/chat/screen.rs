//! The output of a chat: answers on stdout, everything else on stderr.

use std::io::{self, IsTerminal as _};

use anstyle::{AnsiColor, Style};
use gladhand_core::operations::AgentEvent;
use gladhand_core::wire::invisible::{Escaper, Layout};
use gladhand_core::wire::{Members, RawValue, json};
use serde::Deserialize;
use serde_json::{Value, json};

use super::brief;
use super::ink::Ink;
use super::markdown::Markdown;
use super::pane::Pane;
use super::status::Status;
use super::talk::Speaker;
use crate::terminal::text::{Reader, plain, plain_lines};

const DIM: Style = Style::new().dimmed();
const THOUGHT: Style = Style::new().dimmed().italic();
const PROMPT: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const ASKING: Style = AnsiColor::Yellow.on_default();

/// The status while the model sends nothing.
const THINKING: &str = "thinking";

/// How a chat is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Everything, as it happens.
    Chat,
    /// The answer; the rest only if a user watches.
    Answer,
    /// Every event as a line of JSON.
    Json,
}

/// The output of a chat, and the positions of the cursors.
pub(super) struct Screen {
    form: Form,
    out: Pane,
    err: Pane,
    markdown: Markdown,
    /// The thoughts of the model, on their way to stderr.
    thoughts: Ink,
    /// Makes what the model says harmless, piece by piece: answers and thoughts.
    escapers: [Escaper; 2],
    /// The current activity, if stderr is a terminal.
    status: Option<Status>,
    /// Whether a line can come and go.
    has_status: bool,
    /// How many lines were typed ahead.
    waiting: usize,
    /// Whether a turn runs.
    is_in_turn: bool,
    /// How many messages were put into few words last.
    compressed: Option<u64>,
    /// Whether a part of the answer was shown in this turn.
    has_answered: bool,
    /// Whether an answer is being shown.
    is_answering: bool,
    /// The last remark of the agent, kept until it is known whether it explains a failed turn.
    remark: Option<String>,
    /// How much the next request is reckoned to take.
    tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Segment {
    kind: String,
    text: String,
}

#[derive(Deserialize)]
struct Executed<'a> {
    ok: bool,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<String>,
}

impl Screen {
    /// On our own two outputs.
    pub(super) fn new(form: Form) -> Self {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let colours = (anstream::AutoStream::choice(&stdout), anstream::AutoStream::choice(&stderr));
        let terminals = (stdout.is_terminal(), stderr.is_terminal());
        let out = Pane::new(stdout, terminals.0, colours.0);
        let can_erase = cfg!(windows) || std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        Self {
            form,
            markdown: if out.is_styled { Markdown::default() } else { Markdown::bare() },
            thoughts: Ink::default(),
            escapers: Default::default(),
            status: None,
            has_status: form != Form::Json && terminals == (true, true) && can_erase,
            waiting: 0,
            is_in_turn: false,
            compressed: None,
            out,
            err: Pane::new(stderr, terminals.1, colours.1),
            has_answered: false,
            is_answering: false,
            remark: None,
            tokens: None,
        }
    }

    /// A turn begins.
    pub(super) fn begin_turn(&mut self) -> io::Result<()> {
        (self.has_answered, self.is_in_turn) = (false, true);
        self.work()
    }

    /// The turn has ended, or the caller no longer waits for its end.
    pub(super) fn end_turn(&mut self) -> io::Result<()> {
        self.is_in_turn = false;
        self.rest()
    }

    /// A turn goes on, and nothing is known of it.
    pub(super) fn work(&mut self) -> io::Result<()> {
        self.begin(THINKING)
    }

    /// Ends when there is another second to be shown; never, if nothing is going on.
    pub(super) async fn second(&self) {
        match &self.status {
            Some(status) => status.second().await,
            None => std::future::pending().await,
        }
    }

    /// Shows how long it takes, where nothing else is being shown.
    pub(super) fn tick(&mut self) -> io::Result<()> {
        let is_fresh = !self.is_answering && self.out.is_fresh && self.err.is_fresh;
        match self.status.as_mut().filter(|_| is_fresh) {
            Some(status) => status.draw(&mut self.err),
            None => Ok(()),
        }
    }

    /// The user has typed a line during other work, and this many lines wait now.
    pub(super) fn typed_ahead(&mut self, line: &str, waiting: usize) -> io::Result<()> {
        self.waiting = waiting;
        self.markdown.moved();
        self.thoughts.moved();
        (self.out.is_fresh, self.err.is_fresh) = (true, true);
        self.status.as_mut().map_or(Ok(()), |status| status.typed(line, waiting, &mut self.err))
    }

    /// Shows a line again that was typed ahead, now that its turn has come.
    pub(super) fn repeat(&mut self, line: &str, waiting: usize) -> io::Result<()> {
        self.waiting = waiting;
        self.err.write_lines(&[(DIM, &format!("{}\n", plain_lines(line)))], SIGN.chars().count())
    }

    /// Shows something that happened.
    pub(super) fn event(&mut self, event: &AgentEvent) -> io::Result<()> {
        if event.kind == "session.context.estimate" {
            self.estimated(event);
        }
        if self.form == Form::Json {
            return self.line(event.kind, &event.payload);
        }
        let Some(payload) = Members::of(&event.payload) else { return Ok(()) };
        let data = payload.object("data").unwrap_or_default();
        match event.kind {
            "session.stream.chunk" => {
                let chunk = payload.object("chunk").unwrap_or_default();
                let segments = chunk.raw("segments").and_then(|raw| serde_json::from_str(raw.get()).ok());
                segments.unwrap_or_else(Vec::new).iter().try_for_each(|segment: &Segment| self.segment(segment))
            }
            "session.tool.call.started" => {
                let call = data.object("call").unwrap_or_default();
                let input = brief::input(call.raw("input").map_or("{}", RawValue::get));
                let name = plain(&call.str("name").unwrap_or_default());
                self.tool(&name, &input)?;
                self.begin(&name)
            }
            "session.tool.call.completed" => {
                let executed = data.raw("executed").and_then(|raw| serde_json::from_str(raw.get()).ok());
                executed.map_or(Ok(()), |executed: Executed<'_>| self.outcome(&executed))?;
                self.work()
            }
            "session.message.appended" => {
                let message = payload.object("message").unwrap_or_default();
                if message.str("kind").as_deref() == Some("system") {
                    self.settle_remark()?;
                    self.remark = message.str("text").map(String::from);
                }
                Ok(())
            }
            "auth.flow.url" => {
                let url = payload.str("url").unwrap_or_default();
                self.beside(ASKING, &format!("open this in a browser: {url}"))
            }
            "auth.flow.device_code" => {
                let code = payload.str("user_code").unwrap_or_default();
                self.beside(ASKING, &format!("and type in this code: {code}"))
            }
            "compaction.started" => {
                self.compressed = payload.raw("event_count").and_then(|count| count.get().parse().ok());
                self.begin("compressing")
            }
            "compaction.completed" | "compaction.failed" if self.is_in_turn => self.work(),
            "compaction.completed" | "compaction.failed" => self.rest(),
            "session.completed" | "session.interrupted" => {
                self.end_turn()?;
                self.refresh()
            }
            "session.error" => {
                self.end_turn()?;
                let message = payload.str("message").unwrap_or_default();
                // The remark says the same, and where it happened.
                let remark = self.remark.take_if(|remark| remark.contains(&*message));
                self.complain(remark.as_deref().unwrap_or(&message))
            }
            _ => Ok(()),
        }
    }

    /// Stores the size of the conversation, which is shown with the name of the model.
    fn estimated(&mut self, event: &AgentEvent) {
        let payload = Members::of(&event.payload).unwrap_or_default();
        let tokens = payload.raw("total_tokens_estimate").and_then(|tokens| tokens.get().parse().ok());
        self.tokens = tokens.or(self.tokens);
    }

    /// Says who answered.
    pub(super) fn spoke(&mut self, speaker: &Speaker) -> io::Result<()> {
        let Speaker { model, provider } = speaker;
        if self.form == Form::Json {
            let spoke = json!({"model": model, "provider": provider, "context_tokens": self.tokens});
            return self.line("chat.answered", &json::to_raw(&spoke));
        }
        let tokens = self.tokens.map(|tokens| format!(" · about {tokens} tokens of context")).unwrap_or_default();
        self.note(&format!("{model} · {provider}{tokens}"))
    }

    /// Says something that is good to know.
    pub(super) fn note(&mut self, text: &str) -> io::Result<()> {
        self.aside(DIM, text)
    }

    /// Says what a conversation was put into.
    pub(super) fn compressed(&mut self, said: &Value) -> io::Result<()> {
        // The agent remarks something like it, whether it was worth it or not.
        self.remark = None;
        let messages = self.compressed.take();
        self.note(&brief::compressed(said, messages, self.tokens))
    }

    /// Says what went wrong.
    pub(super) fn complain(&mut self, text: &str) -> io::Result<()> {
        // Of the one question the whole command tells how it ended.
        if self.form == Form::Chat { self.beside(BAD, text) } else { Ok(()) }
    }

    /// Shows what a command answered.
    pub(super) fn report(&mut self, said: &str) -> io::Result<()> {
        if self.form == Form::Json {
            return self.line("chat.command", &json::to_raw(&json!({"text": said})));
        }
        self.refresh()?;
        for line in said.lines() {
            self.out.write_lines(&[(Style::new(), line)], second_column(line))?;
        }
        Ok(())
    }

    /// Shows something of a conversation that went before.
    pub(super) fn recall(&mut self, asked: &str, answered: &str) -> io::Result<()> {
        if self.form != Form::Chat {
            return Ok(());
        }
        self.refresh()?;
        self.err.write_lines(&[(PROMPT, &format!("{SIGN}{}", plain_lines(asked)))], SIGN.chars().count())?;
        self.segment(&Segment { kind: "answer".to_owned(), text: answered.to_owned() })?;
        self.refresh()
    }

    /// Invites a person to say something, unless that was done.
    pub(super) fn prompt(&mut self) -> io::Result<()> {
        if self.form == Form::Json || !self.err.is_fresh {
            return Ok(());
        }
        self.refresh()?;
        self.err.write_in(PROMPT, SIGN)
    }

    /// Asks for more of the same.
    pub(super) fn more(&mut self) -> io::Result<()> {
        self.err.write_in(DIM, MORE)
    }

    /// The prompt of the line editor: without and with colours.
    pub(super) fn sign(&self, is_continued: bool) -> (String, String) {
        let (style, sign) = if is_continued { (DIM, MORE) } else { (PROMPT, SIGN) };
        let style = self.err.style(style);
        (sign.to_owned(), format!("{style}{sign}{style:#}"))
    }

    /// Whether a line can be edited on the screen.
    pub(super) fn can_edit(&self) -> bool {
        self.form == Form::Chat && self.has_status
    }

    /// Asks something.
    pub(super) fn ask(&mut self, about: &str, question: &str) -> io::Result<()> {
        self.refresh()?;
        self.status = None;
        self.err.write_in(ASKING, &plain_lines(about))?;
        self.err.write("\n")?;
        self.err.write(question)
    }

    /// A person pressed Enter: the cursor is at the beginning of a line.
    pub(super) fn entered(&mut self) {
        self.err.is_fresh = true;
    }

    /// Ends what is being shown.
    pub(super) fn refresh(&mut self) -> io::Result<()> {
        self.hide()?;
        let thought = self.thoughts.finish();
        self.err.write(&thought)?;
        if std::mem::take(&mut self.is_answering) {
            let rest = self.markdown.finish();
            self.out.write(&rest)?;
        }
        self.out.refresh()?;
        self.err.refresh()?;
        self.settle_remark()
    }

    fn settle_remark(&mut self) -> io::Result<()> {
        self.remark.take().map_or(Ok(()), |remark| self.note(&remark))
    }

    fn line(&mut self, kind: &str, payload: &RawValue) -> io::Result<()> {
        let payload = Reader::of_stdout().json(payload.get());
        self.out.write(&format!("{{\"type\":\"{kind}\",\"payload\":{payload}}}\n"))
    }

    fn segment(&mut self, segment: &Segment) -> io::Result<()> {
        if segment.kind == "thought" {
            if self.is_answering {
                self.refresh()?;
            }
            if !self.has_watcher() {
                return Ok(());
            }
            self.hide()?;
            self.thoughts.fit(self.err.width());
            let text = self.escapers[1].escape(&segment.text, Layout::Lines);
            self.thoughts.put(&text, self.err.style(THOUGHT));
            let thought = self.thoughts.take();
            return self.err.write(&thought);
        }
        if !self.is_answering {
            self.refresh()?;
            // Parts of an answer between which something else happened stand apart.
            if self.has_answered {
                self.out.write("\n")?;
            }
            (self.is_answering, self.has_answered) = (true, true);
        }
        if !self.out.is_terminal {
            return self.out.write(&segment.text);
        }
        self.markdown.fit(self.out.width());
        let text = segment.text.replace('\r', "");
        let text = self.markdown.feed(&self.escapers[0].escape(&text, Layout::Lines));
        self.out.write(&text)
    }

    fn tool(&mut self, name: &str, input: &str) -> io::Result<()> {
        if !self.has_watcher() {
            return self.refresh();
        }
        self.refresh()?;
        self.err.write_lines(&[(PROMPT, &format!("• {name}")), (DIM, &format!(" {input}"))], 2)
    }

    fn outcome(&mut self, executed: &Executed<'_>) -> io::Result<()> {
        if !self.has_watcher() {
            return Ok(());
        }
        self.refresh()?;
        let (sign, style) = if executed.ok { ("✓", GOOD) } else { ("✗", BAD) };
        let said = match &executed.error {
            Some(error) => brief::failure(error, executed.result.map(RawValue::get)),
            None => brief::outcome(executed.result.map_or("null", RawValue::get)),
        };
        self.err.write_lines(&[(style, &format!("  {sign}")), (DIM, &format!(" {said}"))], 4)
    }

    /// Something goes on from here on.
    fn begin(&mut self, what: &str) -> io::Result<()> {
        self.hide()?;
        if self.has_status {
            self.status = Some(Status::begin(what, self.waiting));
        }
        self.tick()
    }

    /// Nothing goes on any more.
    fn rest(&mut self) -> io::Result<()> {
        self.hide()?;
        self.status = None;
        Ok(())
    }

    fn hide(&mut self) -> io::Result<()> {
        self.status.as_mut().map_or(Ok(()), |status| status.erase(&mut self.err))
    }

    fn aside(&mut self, style: Style, text: &str) -> io::Result<()> {
        if self.has_watcher() { self.beside(style, text) } else { Ok(()) }
    }

    fn beside(&mut self, style: Style, text: &str) -> io::Result<()> {
        self.refresh()?;
        self.err.write_lines(&[(style, &plain_lines(text))], 0)
    }

    /// Whether a user sees the output besides the answer.
    fn has_watcher(&self) -> bool {
        match self.form {
            Form::Chat | Form::Answer => self.err.is_terminal,
            Form::Json => false,
        }
    }
}

/// The prompt for a message.
const SIGN: &str = "› ";
/// The prompt for the continuation of a message.
const MORE: &str = "… ";

/// Where the second column of a table begins in one of its lines, because what stands there goes on there; 0 where there
/// is none.
fn second_column(line: &str) -> usize {
    let second = line.trim_start().split_once("  ").map(|(_, rest)| rest.trim_start());
    second.map_or(0, |second| line[..line.len() - second.len()].chars().count())
}
