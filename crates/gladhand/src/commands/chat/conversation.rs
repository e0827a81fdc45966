//! The chat itself: one person, one session, one turn after the other.

use gladhand_core::operations::{AgentCall, AgentEvent};
use gladhand_core::wire::{Members, RawValue};
use gladhand_dialects::Stop;
use serde::Deserialize;

use super::brief;
use super::models::ways;
use super::screen::Screen;
use super::talk::Talk;
use super::typed::{Typed, Typing};
use crate::commands::CommandError;
use crate::terminal::text::{exact, plain};
use gladhand_server::signals::Signals;

/// A chat that is being held.
pub(super) struct Conversation {
    pub(super) talk: Talk,
    pub(super) screen: Screen,
    pub(super) typed: Option<Typed>,
    pub(super) signals: Signals,
}

/// How a turn ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// With an answer.
    Answered,
    /// The user stopped it.
    Interrupted,
    /// There is no answer, for this reason.
    Failed(String),
    /// The process was told to stop.
    Left(Stop),
}

/// How a chat ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// The person left.
    Willingly,
    /// The same, after a turn that failed.
    AfterFailure,
    /// A signal came that cannot be put off.
    Told(Stop),
}

impl Conversation {
    /// Holds the conversation until the user leaves.
    pub(super) async fn hold(&mut self) -> Result<Left, CommandError> {
        let mut has_failed = false;
        loop {
            let message = match self.message().await? {
                Ok(Some(message)) => message,
                Ok(None) if has_failed && !self.has_person() => return Ok(Left::AfterFailure),
                Ok(None) | Err(Stop::Interrupted) => return Ok(Left::Willingly),
                Err(stop) => return Ok(Left::Told(stop)),
            };
            let message = message.trim();
            if message.is_empty() {
                continue;
            }
            if message.starts_with('/') {
                match self.command(message).await {
                    Ok(None) => {}
                    Ok(Some(left)) => return Ok(left),
                    Err(error) => self.complain(&error)?,
                }
                continue;
            }
            match self.turn(message).await? {
                Ended::Left(stop) => return Ok(Left::Told(stop)),
                Ended::Failed(_) => has_failed = true,
                Ended::Answered | Ended::Interrupted => has_failed = false,
            }
        }
    }

    /// One turn: from the user's message to the end of the answer.
    pub(super) async fn turn(&mut self, text: &str) -> Result<Ended, CommandError> {
        let speaker = self.talk.speaker().await;
        let session = self.talk.session.clone();
        let send = AgentCall::Send { session: session.into(), text: text.into(), enqueue: true, images: Vec::new() };
        self.talk.ask(send).await?;
        self.screen.begin_turn()?;
        let mut is_stopping = false;
        let ended = loop {
            let event = tokio::select! {
                biased;
                stop = self.signals.next() => Err(stop),
                () = self.talk.heard() => Ok(self.talk.next_event()),
                line = ahead(self.typed.as_mut()) => {
                    self.screen.typed_ahead(&line, self.waiting())?;
                    continue;
                }
                () = self.screen.second() => {
                    self.screen.tick()?;
                    continue;
                }
            };
            let stop = match event {
                Err(stop) => Some(stop),
                Ok(None) => None,
                Ok(Some(event)) => {
                    self.screen.event(&event)?;
                    if let Some(ended) = ended(&event) {
                        break ended;
                    }
                    match event.kind {
                        "session.approval.requested" => self.approve(&event.payload).await?,
                        _ => None,
                    }
                }
            };
            let Some(stop) = stop else { continue };
            self.screen.end_turn()?;
            if is_stopping || stop != Stop::Interrupted {
                return Ok(Ended::Left(stop));
            }
            is_stopping = true;
            self.talk.interrupt().await;
        };
        match (&ended, speaker) {
            (Ended::Answered | Ended::Interrupted, Some(speaker)) => self.screen.spoke(&speaker)?,
            (Ended::Failed(said), None) => match self.talk.trouble().await {
                Some(why) if why == *said => {}
                Some(why) => self.screen.note(&why)?,
                None => self.screen.note(&ways())?,
            },
            _ => {}
        }
        Ok(ended)
    }

    /// Asks a person something that is answered with a word; what they answered, in small letters. None: they are gone.
    pub(super) async fn ask(
        &mut self,
        about: &str,
        question: &str,
    ) -> Result<Result<Option<String>, Stop>, CommandError> {
        let Some(typed) = &mut self.typed else { return Ok(Ok(None)) };
        typed.set_aside();
        self.screen.ask(about, question)?;
        let answer = tokio::select! {
            biased;
            stop = self.signals.next() => return Ok(Err(stop)),
            answer = typed.answer() => answer,
        };
        self.screen.entered();
        Ok(Ok(answer.map(|answer| answer.trim().to_lowercase())))
    }

    /// Shows what was said last in a conversation that is taken up again.
    pub(super) async fn recall(&mut self) -> Result<(), CommandError> {
        #[derive(Deserialize)]
        struct State {
            messages: Vec<PastMessage>,
        }
        #[derive(Deserialize)]
        struct PastMessage {
            kind: String,
            text: String,
        }
        let state = self.talk.ask(AgentCall::Get(self.talk.session.as_str().into())).await?;
        let State { messages } = serde_json::from_str(state.get())?;
        let last = |kind: &str| messages.iter().rfind(|message| message.kind == kind).map_or("", |it| &it.text);
        self.screen.note(&format!("resumed; {} messages so far, the last ones:", messages.len()))?;
        self.screen.recall(last("user"), last("assistant"))?;
        Ok(())
    }

    /// Whether a person can be asked.
    pub(super) fn has_person(&self) -> bool {
        self.typed.as_ref().is_some_and(|typed| typed.is_person)
    }

    /// How many lines were typed ahead.
    pub(super) fn waiting(&self) -> usize {
        self.typed.as_ref().map_or(0, Typed::waiting)
    }

    /// The next message; none at the end of input.
    async fn message(&mut self) -> Result<Result<Option<String>, Stop>, CommandError> {
        let has_person = self.has_person();
        let Self { talk, screen, typed, signals } = self;
        let Some(typed) = typed else { return Ok(Ok(None)) };
        // The terminal itself shows a line that is typed at the prompt, so only lines from before the prompt are repeated.
        let mut has_prompted = false;
        // Events that arrive while a line is edited are shown when it is entered.
        let mut held = Vec::new();
        loop {
            let early = if has_prompted { None } else { typed.early() };
            if has_person {
                screen.prompt()?;
                has_prompted = true;
                if early.is_none() {
                    typed.edit(screen.sign(typed.is_continued()));
                }
            }
            let message = match early {
                Some((line, typing)) => {
                    screen.repeat(&line, typed.waiting())?;
                    has_prompted = false;
                    Some(typing)
                }
                None => tokio::select! {
                    biased;
                    stop = signals.next() => {
                        if typed.has_left_prompt() {
                            screen.entered();
                        }
                        return Ok(Err(stop));
                    }
                    () = talk.heard() => {
                        match talk.next_event() {
                            Some(event) if typed.is_editing() => held.push(event),
                            Some(event) => screen.event(&event)?,
                            None => {}
                        }
                        continue;
                    }
                    message = typed.message() => message,
                },
            };
            if typed.has_left_prompt() || !held.is_empty() {
                screen.entered();
                held.drain(..).try_for_each(|event| screen.event(&event))?;
            }
            match message {
                Some(Typing::More) if has_person => screen.more()?,
                Some(Typing::More) => {}
                Some(Typing::Done(message)) => {
                    screen.entered();
                    return Ok(Ok(Some(message)));
                }
                None => return Ok(Ok(None)),
            }
        }
    }

    /// Lets a person decide about a tool.
    async fn approve(&mut self, request: &RawValue) -> Result<Option<Stop>, CommandError> {
        let request = Members::of(request).unwrap_or_default();
        let (tool, call) = (request.str("tool").unwrap_or_default(), request.str("call_id").unwrap_or_default());
        let effect = request.str("effect").unwrap_or_default();
        let input = brief::whole(request.raw("input").map_or("{}", RawValue::get));
        let reason = request.str("reason").map(|reason| format!("\n{}", exact(&reason))).unwrap_or_default();
        let mut ends = brief::ends(&input);
        let (allow, always) = loop {
            let more = if ends.is_some() { ", [s]how all" } else { "" };
            let call = ends.as_ref().unwrap_or(&input).trim_end();
            let about = format!("{} wants to run ({effect}):\n{call}{reason}", plain(&tool));
            let question = format!("allow? [y]es, [n]o, [a]lways in this chat{more}: ");
            match self.ask(&about, &question).await? {
                Err(stop) => return Ok(Some(stop)),
                Ok(None) => break (false, false),
                Ok(Some(answer)) => match answer.as_str() {
                    "s" | "show" => ends = None,
                    "y" | "yes" => break (true, false),
                    "a" | "always" => break (true, true),
                    "n" | "no" => break (false, false),
                    _ => {}
                },
            }
        };
        let session = self.talk.session.as_str().into();
        self.talk.ask(AgentCall::Approve { session, call, allow, always }).await?;
        self.screen.work()?;
        Ok(None)
    }

    fn complain(&mut self, error: &CommandError) -> std::io::Result<()> {
        self.screen.complain(&error.to_string())?;
        error.hint.as_ref().map_or(Ok(()), |hint| self.screen.note(&format!("hint: {hint}")))
    }
}

/// A line that is typed while something else goes on. Never completes if there is no input to read.
pub(super) async fn ahead(typed: Option<&mut Typed>) -> String {
    match typed {
        Some(typed) => typed.ahead().await,
        None => std::future::pending().await,
    }
}

/// How this event ends the turn, if it does.
fn ended(event: &AgentEvent) -> Option<Ended> {
    Some(match event.kind {
        "session.completed" => Ended::Answered,
        "session.interrupted" => Ended::Interrupted,
        "session.error" => {
            let message = Members::of(&event.payload).and_then(|payload| payload.str("message").map(String::from));
            Ended::Failed(message.unwrap_or_default())
        }
        _ => return None,
    })
}
