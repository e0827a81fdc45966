//! What a person sees of a chat: answers on stdout, everything else on stderr.

use std::io::{self, IsTerminal as _, Write};

use anstyle::{AnsiColor, Style};
use gladhand_operations::AgentEvent;
use gladhand_wire::{Members, RawValue, json};
use serde::Deserialize;
use serde_json::json;

use super::brief;
use super::markdown::Markdown;
use super::talk::Speaker;
use crate::commands::plain::{plain, plain_lines};

const DIM: Style = Style::new().dimmed();
const THOUGHT: Style = Style::new().dimmed().italic();
const PROMPT: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const ASKING: Style = AnsiColor::Yellow.on_default();

/// How a chat is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Everything, as it happens.
    Chat,
    /// The answer; the rest only for somebody who watches.
    Answer,
    /// Every event as a line of JSON.
    Json,
}

/// What is shown, and where the cursors are.
pub(super) struct Screen {
    form: Form,
    out: Pane,
    err: Pane,
    markdown: Markdown,
    /// Whether a part of the answer was shown in this turn.
    has_answered: bool,
    /// Whether an answer is being shown.
    is_answering: bool,
    /// What the agent remarked, until it is known whether that is why the turn failed.
    remark: Option<String>,
    /// How much the next request is reckoned to take.
    tokens: Option<u64>,
}

/// One of our two outputs.
struct Pane {
    to: Box<dyn Write + Send>,
    is_terminal: bool,
    is_styled: bool,
    /// Whether the cursor is at the beginning of a line.
    is_fresh: bool,
}

impl Pane {
    fn new(to: impl Write + Send + 'static, is_terminal: bool, colours: anstream::ColorChoice) -> Self {
        let is_styled = is_terminal && colours != anstream::ColorChoice::Never;
        Self { to: Box::new(to), is_terminal, is_styled, is_fresh: true }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.is_fresh = text.ends_with('\n');
        self.to.write_all(text.as_bytes())?;
        self.to.flush()
    }

    fn write_in(&mut self, style: Style, text: &str) -> io::Result<()> {
        match self.is_styled {
            // The end of a line is outside, so that it can be seen.
            true => {
                let line = text.trim_end_matches('\n');
                self.write(&format!("{style}{line}{style:#}{}", &text[line.len()..]))
            }
            false => self.write(text),
        }
    }

    fn refresh(&mut self) -> io::Result<()> {
        if self.is_fresh { Ok(()) } else { self.write("\n") }
    }
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
        Self {
            form,
            out: Pane::new(stdout, terminals.0, colours.0),
            err: Pane::new(stderr, terminals.1, colours.1),
            markdown: Markdown::default(),
            has_answered: false,
            is_answering: false,
            remark: None,
            tokens: None,
        }
    }

    /// A turn begins.
    pub(super) fn begin_turn(&mut self) {
        self.has_answered = false;
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
                self.tool(&call.str("name").unwrap_or_default(), &input)
            }
            "session.tool.call.completed" => {
                let executed = data.raw("executed").and_then(|raw| serde_json::from_str(raw.get()).ok());
                executed.map_or(Ok(()), |executed: Executed<'_>| self.outcome(&executed))
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
            "compaction.started" => self.note("the conversation is being put into few words…"),
            "session.completed" | "session.interrupted" => self.refresh(),
            "session.error" => {
                let message = payload.str("message").unwrap_or_default();
                // The remark says the same, and where it happened.
                let remark = self.remark.take_if(|remark| remark.contains(&*message));
                self.complain(remark.as_deref().unwrap_or(&message))
            }
            _ => Ok(()),
        }
    }

    /// Keeps how large the conversation is, for when it is said who answered.
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
        self.out.write(said)?;
        self.out.refresh()
    }

    /// Shows something of a conversation that went before.
    pub(super) fn recall(&mut self, asked: &str, answered: &str) -> io::Result<()> {
        if self.form != Form::Chat {
            return Ok(());
        }
        self.refresh()?;
        self.err.write_in(PROMPT, &format!("{SIGN}{}\n", plain_lines(asked)))?;
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
        self.err.write_in(DIM, "… ")
    }

    /// Asks something.
    pub(super) fn ask(&mut self, about: &str, question: &str) -> io::Result<()> {
        self.refresh()?;
        self.err.write_in(ASKING, &format!("{}\n", plain_lines(about)))?;
        self.err.write(question)
    }

    /// A person pressed Enter: the cursor is at the beginning of a line.
    pub(super) fn entered(&mut self) {
        self.err.is_fresh = true;
    }

    /// Ends what is being shown.
    pub(super) fn refresh(&mut self) -> io::Result<()> {
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
        self.out.write(&format!("{{\"type\":\"{kind}\",\"payload\":{payload}}}\n"))
    }

    fn segment(&mut self, segment: &Segment) -> io::Result<()> {
        if segment.kind == "thought" {
            if self.is_answering {
                self.refresh()?;
            }
            return if self.has_watcher() { self.err.write_in(THOUGHT, &plain_lines(&segment.text)) } else { Ok(()) };
        }
        if !self.is_answering {
            self.refresh()?;
            // Parts of an answer between which something else happened stand apart.
            if self.has_answered {
                self.out.write("\n")?;
            }
            (self.is_answering, self.has_answered) = (true, true);
        }
        let text = match (self.out.is_styled, self.out.is_terminal) {
            (true, _) => self.markdown.feed(&plain_lines(&segment.text.replace('\r', ""))),
            (false, true) => plain_lines(&segment.text.replace('\r', "")),
            (false, false) => segment.text.clone(),
        };
        self.out.write(&text)
    }

    fn tool(&mut self, name: &str, input: &str) -> io::Result<()> {
        if !self.has_watcher() {
            return self.refresh();
        }
        self.refresh()?;
        self.err.write_in(PROMPT, &format!("• {}", plain(name)))?;
        self.err.write_in(DIM, &format!(" {input}"))?;
        self.err.write("\n")
    }

    fn outcome(&mut self, executed: &Executed<'_>) -> io::Result<()> {
        if !self.has_watcher() {
            return Ok(());
        }
        let (sign, style) = if executed.ok { ("✓", GOOD) } else { ("✗", BAD) };
        let said = match &executed.error {
            Some(error) => brief::shortened(error),
            None => brief::outcome(executed.result.map_or("null", RawValue::get)),
        };
        self.err.write_in(style, &format!("  {sign}"))?;
        self.err.write_in(DIM, &format!(" {said}"))?;
        self.err.write("\n")
    }

    fn aside(&mut self, style: Style, text: &str) -> io::Result<()> {
        if self.has_watcher() { self.beside(style, text) } else { Ok(()) }
    }

    fn beside(&mut self, style: Style, text: &str) -> io::Result<()> {
        self.refresh()?;
        self.err.write_in(style, &format!("{}\n", plain_lines(text)))
    }

    /// Whether somebody sees what is beside the answer.
    fn has_watcher(&self) -> bool {
        match self.form {
            Form::Chat | Form::Answer => self.err.is_terminal,
            Form::Json => false,
        }
    }
}

/// What invites a person to say something.
const SIGN: &str = "› ";
