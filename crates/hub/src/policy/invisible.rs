//! Invisible text: strips or refuses characters that a model reads and a person does not see.
//!
//! [`gladhand_core::wire::invisible`] says which characters those are. This module knows where text is: in definitions, results,
//! questions, notices and failures. It decides; `routes` applies it to lists and `routing` to the answers of providers.

use std::borrow::Cow;
use std::sync::Arc;

use gladhand_core::operations::{
    CapabilityEvent, Completion, Content, Contents, Failure, FailureKind, Log, Notice, Outcome, Progress, Prompt,
    PromptResult, Question, Reply, Resource, Template, Tool, ToolResult,
};
use gladhand_core::wire::invisible::{Found, strip, strip_json};
use gladhand_core::wire::{RawValue, json};
use gladhand_redaction::{redact, redact_raw};
use serde::{Deserialize, Serialize};

use crate::provider::{Answer, Listed, Work};

/// The mode for invisible text on its way from a provider to a downstream or to the agent's model.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Invisible {
    /// It passes unchanged, and nothing looks for it.
    #[default]
    Show,
    /// It is removed.
    Strip,
    /// A definition that has it is left out of the lists, and a result or question that has it fails.
    Refuse,
}

impl Invisible {
    /// The mode that `as u8` made this of.
    pub(crate) fn of(number: u8) -> Self {
        match number {
            1 => Self::Strip,
            2 => Self::Refuse,
            _ => Self::Show,
        }
    }

    /// Applies the mode to the outcome of a call.
    pub fn outcome(self, outcome: Outcome) -> Outcome {
        match (self, outcome) {
            (Self::Show, outcome) => outcome,
            (mode, Err(failure)) => Err(mode.failure(failure)),
            (mode, Ok(mut reply)) => mode.admit(&mut reply, "the result").map(|()| reply),
        }
    }

    /// Strips a failure under either mode: an error has no further error to be refused with.
    pub fn failure(self, mut failure: Failure) -> Failure {
        if self != Self::Show && remove(&mut failure) {
            redact_again(&mut failure);
        }
        failure
    }

    /// Applies the mode to a question. The error is the answer to a question that is refused.
    pub fn question(self, mut question: Question) -> Result<Question, Failure> {
        self.admit(&mut question, "the question").map(|()| question)
    }

    /// Strips a notice under either mode, because nothing answers a notice.
    pub fn notice(self, mut notice: Notice) -> Notice {
        if self != Self::Show && remove(&mut notice) && matches!(notice, Notice::Log(..) | Notice::Progress(..)) {
            redact_again(&mut notice);
        }
        notice
    }

    /// Applies the mode to a text such as instructions. The error is why the text is refused.
    pub fn text(self, mut text: String) -> Result<String, Found> {
        let length = text.len();
        self.look(&mut text)?;
        if text.len() != length {
            redact_again(&mut text);
        }
        Ok(text)
    }

    /// Applies the mode to raw JSON. The error is why it is refused.
    pub fn json(self, mut json: Box<RawValue>) -> Result<Box<RawValue>, Found> {
        self.look(&mut json).map(|()| json)
    }

    /// The answer of a provider, with [`Self::outcome`] applied to it.
    pub(crate) fn answer(self, answer: Answer) -> Answer {
        if self == Self::Show {
            return answer;
        }
        let later = |work: Work| -> Work { Box::pin(async move { self.outcome(work.await) }) };
        match answer {
            Answer::Now(outcome) => Answer::Now(self.outcome(outcome)),
            Answer::Later(work) => Answer::Later(later(work)),
            Answer::TaskLater(work) => Answer::TaskLater(later(work)),
            Answer::AsTask(work) => Answer::AsTask(later(work)),
        }
    }

    /// Applies the mode to something that is listed: what was found in it, if it is not to be listed.
    pub(crate) fn look(self, texts: &mut impl Texts) -> Result<(), Found> {
        match self {
            Self::Show => Ok(()),
            Self::Strip => {
                remove(texts);
                Ok(())
            }
            Self::Refuse => match found(texts) {
                found if found.is_empty() => Ok(()),
                found => Err(found),
            },
        }
    }

    fn admit(self, texts: &mut impl Texts, what: &str) -> Result<(), Failure> {
        self.look(texts).map_err(|found| Failure::new(FailureKind::Denied, refusal(what, &found)).lasting())
    }
}

/// Why something is refused, for people and models.
pub fn refusal(what: &str, found: &Found) -> String {
    format!("{what} has {found}, which `[policy] invisible = \"refuse\"` does not let pass")
}

/// Names everything in the lists of a provider that has invisible text, as in ``tool `x` ``, with the characters.
pub fn invisible_in(mut listed: Listed) -> Vec<(String, Found)> {
    fn each<T: Texts>(all: &mut [T], what: &'static str, name: fn(&T) -> &str) -> Vec<(String, Found)> {
        let named = all.iter_mut().map(|one| (format!("{what} `{}`", name(one)), found(one)));
        named.filter(|(_, found)| !found.is_empty()).collect()
    }
    let tools = each(&mut listed.tools, "tool", |tool| &tool.name);
    let prompts = each(&mut listed.prompts, "prompt", |prompt| &prompt.name);
    let resources = each(&mut listed.resources, "resource", |resource| &resource.uri);
    let templates = each(&mut listed.templates, "resource template", |template| &template.uri_template);
    [tools, prompts, resources, templates].concat()
}

/// Removes the invisible characters. Returns whether there were any.
fn remove(texts: &mut impl Texts) -> bool {
    let mut has_changed = false;
    texts.each(&mut |part| match part {
        Part::Text(text) => {
            if let Cow::Owned(stripped) = strip(text) {
                (*text, has_changed) = (stripped, true);
            }
        }
        Part::Json(raw) => {
            if let Cow::Owned(stripped) = strip_json(raw.get()) {
                (*raw, has_changed) = (json::raw(stripped), true);
            }
        }
    });
    has_changed
}

/// Masks secrets that were found by no search while invisible characters divided them.
fn redact_again(texts: &mut impl Texts) {
    texts.each(&mut |part| match part {
        Part::Text(text) => {
            if let Cow::Owned(redacted) = redact(text) {
                *text = redacted;
            }
        }
        Part::Json(raw) => {
            if let Some(redacted) = redact_raw(raw) {
                *raw = redacted;
            }
        }
    });
}

fn found(texts: &mut impl Texts) -> Found {
    let mut found = Found::default();
    texts.each(&mut |part| match part {
        Part::Text(text) => found.look(text),
        Part::Json(raw) => found.look_into_json(raw.get()),
    });
    found
}

/// Something made of text.
pub(crate) trait Texts {
    /// Shows every part of it.
    fn each(&mut self, look: &mut dyn FnMut(Part<'_>));
}

/// A part of something made of text.
pub(crate) enum Part<'t> {
    /// Plain text.
    Text(&'t mut String),
    /// JSON, in whose strings there is text.
    Json(&'t mut Box<RawValue>),
}

impl Texts for String {
    fn each(&mut self, look: &mut dyn FnMut(Part<'_>)) {
        look(Part::Text(self));
    }
}

impl Texts for Box<RawValue> {
    fn each(&mut self, look: &mut dyn FnMut(Part<'_>)) {
        look(Part::Json(self));
    }
}

impl<T: Texts> Texts for Option<T> {
    fn each(&mut self, look: &mut dyn FnMut(Part<'_>)) {
        self.iter_mut().for_each(|one| one.each(look));
    }
}

impl<T: Texts> Texts for Vec<T> {
    fn each(&mut self, look: &mut dyn FnMut(Part<'_>)) {
        self.iter_mut().for_each(|one| one.each(look));
    }
}

/// A member that the neutral model does not know.
impl Texts for (String, Box<RawValue>) {
    fn each(&mut self, look: &mut dyn FnMut(Part<'_>)) {
        self.0.each(look);
        self.1.each(look);
    }
}

impl Texts for Content {
    fn each(&mut self, look: &mut dyn FnMut(Part<'_>)) {
        let (Self::Text(raw) | Self::Block(raw)) = self;
        raw.each(look);
    }
}

/// The fields of each type that are text.
macro_rules! texts {
    ($($type:ty { $($field:ident),* })*) => {$(
        impl Texts for $type {
            fn each(&mut self, look: &mut dyn FnMut(Part<'_>)) {
                $(self.$field.each(look);)*
            }
        }
    )*};
}

texts! {
    Tool { name, title, description, input_schema, output_schema, tags, extra }
    Resource { uri, name, title, description, mime_type, extra }
    Template { uri_template, name, title, description, mime_type, extra }
    Prompt { name, title, description, arguments, extra }
    gladhand_core::operations::PromptArgument { name, description, extra }
    ToolResult { content, structured, extra }
    Contents { parts, extra }
    PromptResult { description, messages, extra }
    Completion { values, extra }
    Question { params }
    Failure { message, data }
    Log { logger, data }
    Progress { message }
    CapabilityEvent { fields }
}

impl Texts for Reply {
    fn each(&mut self, look: &mut dyn FnMut(Part<'_>)) {
        match self {
            Self::Tool(result) => result.each(look),
            Self::Contents(contents) => contents.each(look),
            Self::Prompt(result) => result.each(look),
            Self::Completion(completion) => completion.each(look),
            Self::Capability(answer) => answer.each(look),
            // Lists are looked at when they are made, and what the agent says is no provider's.
            Self::Tools(_)
            | Self::Resources(_)
            | Self::Templates(_)
            | Self::Prompts(_)
            | Self::Agent(_)
            | Self::Watching(_)
            | Self::Done => {}
        }
    }
}

impl Texts for Notice {
    fn each(&mut self, look: &mut dyn FnMut(Part<'_>)) {
        match self {
            Self::Progress(_, progress) => progress.each(look),
            Self::Log(_, log) => log.each(look),
            Self::Capability(event) => event.each(look),
            // These are for programs, or our own.
            Self::ToolsChanged
            | Self::ResourcesChanged
            | Self::ResourceUpdated(_)
            | Self::PromptsChanged
            | Self::ElicitationComplete(_)
            | Self::ComeBackLater(..)
            | Self::GoesOnAsTask(_)
            | Self::Agent(_) => {}
        }
    }
}

/// Those of a list that may be listed, with the mode applied, and the places that they had.
pub(crate) fn listed<T: Texts + Clone>(
    mode: Invisible,
    all: &Arc<[T]>,
    mut refused: impl FnMut(&T, Found),
) -> Vec<(usize, T)> {
    let mut kept = Vec::with_capacity(all.len());
    for (place, one) in all.iter().enumerate() {
        let mut looked_at = one.clone();
        match mode.look(&mut looked_at) {
            Ok(()) => kept.push((place, looked_at)),
            Err(found) => refused(one, found),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use gladhand_core::negotiation::{Agreement, Defined, Minimum, Offer, Peer, Rules, VersionRule, agree};
    use gladhand_core::operations::{Call, CallId, Operation, QuestionKind, ToolCall};
    use serde_json::{Value, json};

    use super::*;
    use crate::{Asking, Caller, Hub, Kit, Mount, Naming};

    #[derive(Debug)]
    struct Silent;

    impl Caller for Silent {
        fn tell(&self, _: Notice) {}
        fn ask(&self, _: Option<CallId>, _: Vec<Asking>) {}
    }

    fn agreement() -> Arc<Agreement> {
        let versions = VersionRule::Common;
        let rules = Rules { dialect: "test", versions, minimum: Minimum::Nothing, defines: |_, _, _| Defined::Yes };
        let has = |name: &str| gladhand_core::negotiation::Capability::from_wire(name);
        let offer = || Offer::new(Peer::default(), ["1"]).providing(has("resources")).providing(has("prompts"));
        Arc::new(agree(&rules, &offer(), &offer()).expect("one version on both sides"))
    }

    async fn answer(hub: &Hub, operation: Operation<'_>) -> Outcome {
        let caller: Arc<dyn Caller> = Arc::new(Silent);
        hub.answer(Call::new(CallId(1), operation), &agreement(), &caller).outcome().await
    }

    async fn call(hub: &Hub, tool: &str) -> Outcome {
        let call = ToolCall { name: tool.into(), arguments: gladhand_core::operations::call::no_arguments() };
        answer(hub, Operation::CallTool(call)).await
    }

    async fn tools(hub: &Hub) -> Vec<Tool> {
        match answer(hub, Operation::ListTools).await {
            Ok(Reply::Tools(tools)) => tools.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    async fn said(hub: &Hub, tool: &str) -> String {
        match call(hub, tool).await {
            Ok(Reply::Tool(result)) => format!("{} {}", result.joined_text(), result.structured.unwrap().get()),
            other => panic!("{other:?}"),
        }
    }

    /// A tool of each kind: one that is fine, one whose name, one whose description, one whose schema has such text.
    fn kit() -> Kit {
        let fine =
            |_: ToolCall<'_>, _: &crate::Context<'_>| Ok(ToolResult::structured(json::raw(r#"{"a":1.0}"#.into())));
        let hidden = |_: ToolCall<'_>, _: &crate::Context<'_>| {
            Ok(ToolResult::structured(json::raw("{\"a\u{200b}\":\"\\u202e\u{e0041}x\",\"n\":1e400}".to_owned())))
        };
        let schema =
            |name: &str| Tool::plain(name, "").taking(&json!({"type": "object", "properties": {"a\u{2066}b": {}}}));
        Kit::new()
            .tool(Tool::plain("fine", "👩🏽‍🚀 می‌خواهم"), fine)
            .tool(Tool::plain("na\u{200b}med", ""), fine)
            .tool(Tool::plain("fi\u{2060}ne", ""), fine)
            .tool(Tool::plain("described", "Reads.\u{e0041}\u{e0042}"), fine)
            .tool(schema("schema"), fine)
            .tool(Tool::plain("lies", ""), hidden)
            .tool(Tool::plain("fails", ""), |_, _| {
                Err::<ToolResult, _>(Failure::new(FailureKind::ToolFailed, "no\u{200b}"))
            })
            .resource(Resource::new("x:\u{200b}1", "r", ""), |_, _| Ok(Contents::text("x:1", "", "a\u{feff}b")))
            .resource(Resource::new("x:2", "r", ""), |_, _| Ok(Contents::text("x:2", "", "ab")))
            .prompt(Prompt::new("p\u{200b}", ""), |_, _| Ok(PromptResult::text("a\u{202e}b")))
    }

    fn hub(mode: Invisible) -> Hub {
        Hub::of(vec![Mount::plain(Arc::new(kit()))]).screening(mode)
    }

    fn names(tools: &[Tool]) -> Vec<&str> {
        tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    #[tokio::test]
    async fn shown_text_passes_unchanged() {
        let hub = hub(Invisible::Show);
        assert_eq!(
            names(&tools(&hub).await),
            ["fine", "na\u{200b}med", "fi\u{2060}ne", "described", "schema", "lies", "fails"]
        );
        let raw = "{\"a\u{200b}\":\"\\u202e\u{e0041}x\",\"n\":1e400}";
        assert_eq!(said(&hub, "lies").await, format!("{raw} {raw}"));
        assert!(hub.governor().is_none(), "and nothing is asked");
    }

    #[tokio::test]
    async fn stripped_text_is_the_same_without_the_characters() {
        let hub = hub(Invisible::Strip);
        let listed = tools(&hub).await;
        // The third one would take the name of the first.
        assert_eq!(names(&listed), ["fine", "named", "described", "schema", "lies", "fails"]);
        assert_eq!((listed[0].description.as_str(), listed[2].description.as_str()), ("👩🏽‍🚀 می‌خواهم", "Reads."));
        assert_eq!(listed[3].input_schema.get(), r#"{"properties":{"ab":{}},"type":"object"}"#);
        assert_eq!(said(&hub, "named").await, "{\"a\":1.0} {\"a\":1.0}", "it leads where it led");
        assert_eq!(said(&hub, "lies").await, "{\"a\":\"\\u202ex\",\"n\":1e400} {\"a\":\"x\",\"n\":1e400}");
        assert_eq!(call(&hub, "fails").await.unwrap_err().message, "no");
        assert_eq!(call(&hub, "fi\u{2060}ne").await.unwrap_err().kind, FailureKind::Denied);
        let Ok(Reply::Contents(contents)) = answer(&hub, Operation::ReadResource("x:1".into())).await else { panic!() };
        assert_eq!(serde_json::from_str::<Value>(contents.parts[0].get()).unwrap()["text"], "ab");
        let prompt = ToolCall { name: "p".into(), arguments: gladhand_core::operations::call::no_arguments() };
        let Ok(Reply::Prompt(prompt)) = answer(&hub, Operation::GetPrompt(prompt)).await else { panic!() };
        assert!(prompt.messages[0].get().contains("\"ab\""), "{prompt:?}");
    }

    #[tokio::test]
    async fn refused_text_is_not_listed_and_its_characters_are_named() {
        let hub = hub(Invisible::Refuse);
        assert_eq!(names(&tools(&hub).await), ["fine", "lies", "fails"]);
        let all = hub.tools();
        let described = all.iter().find(|tool| tool.name == "described").unwrap();
        assert_eq!(described.description, "", "the list of all tools has no text of it either");
        assert_eq!(said(&hub, "fine").await, "{\"a\":1.0} {\"a\":1.0}");
        let failure = call(&hub, "lies").await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Denied);
        assert!(
            failure.message.starts_with("the result has 5 invisible characters (U+200B, U+E0041, U+202E)"),
            "{failure}"
        );
        let failure = call(&hub, "described").await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Denied);
        assert!(
            failure.message.contains("the definition of described has 2 invisible characters (U+E0041"),
            "{failure}"
        );
        let failure = call(&hub, "na\u{200b}med").await.unwrap_err();
        assert!(failure.message.contains(r"the definition of na\u{200b}med has"), "{failure}");
        let Ok(Reply::Resources(resources)) = answer(&hub, Operation::ListResources).await else { panic!() };
        assert_eq!(resources.iter().map(|one| one.uri.as_str()).collect::<Vec<_>>(), ["x:2"]);
        let Ok(Reply::Prompts(prompts)) = answer(&hub, Operation::ListPrompts).await else { panic!() };
        assert!(prompts.is_empty());
    }

    #[tokio::test]
    async fn another_mode_holds_from_the_next_call_on() {
        let hub = hub(Invisible::Show);
        let mut changes = hub.changes();
        let hub = hub.screening(Invisible::Refuse);
        assert!(matches!(changes.try_recv(), Ok(Notice::ToolsChanged)), "sessions are told to look again");
        assert_eq!(tools(&hub).await.len(), 3);
        assert_eq!(tools(&hub.screening(Invisible::Show)).await.len(), 7);
    }

    #[tokio::test]
    async fn a_prefixed_name_leads_to_its_tool_in_every_mode() {
        for mode in [Invisible::Show, Invisible::Strip] {
            let mount = Mount { provider: Arc::new(kit()), naming: Naming::prefixed("u") };
            let hub = Hub::of(vec![mount]).screening(mode);
            for tool in
                tools(&hub).await.iter().filter(|tool| tool.name.contains("named") || tool.name.contains("na_med"))
            {
                assert!(call(&hub, &tool.name).await.is_ok(), "{}", tool.name);
            }
        }
    }

    #[test]
    fn a_secret_that_invisible_characters_divide_is_masked_after_they_are_removed() {
        gladhand_redaction::learn("divided-by-nothing", gladhand_redaction::Life::Process);
        let text = "got divided\u{200b}-by-\u{2060}nothing";
        let data = || json::raw(format!("{{\"a\":\"{text}\",\"b\":\"divided\\u200b-by-nothing\"}}"));
        let failure = Failure { data: Some(data()), ..Failure::new(FailureKind::UpstreamError, text) };
        for mode in [Invisible::Strip, Invisible::Refuse] {
            let failure = mode.failure(failure.clone());
            assert_eq!(failure.message, "got ***");
            assert_eq!(failure.data.unwrap().get(), r#"{"a":"got ***","b":"***"}"#);
            let progress = Progress { progress: 1.0, total: None, message: Some(text.to_owned()) };
            let Notice::Progress(_, told) = mode.notice(Notice::Progress(CallId(1), progress)) else { panic!() };
            assert_eq!(told.message.as_deref(), Some("got ***"));
        }
        assert_eq!(Invisible::Strip.text(text.to_owned()).unwrap(), "got ***");
    }

    #[test]
    fn questions_and_notices_are_stripped_or_refused() {
        let question = || Question::elicit(&json!({"message": "na\u{200b}me?", "requestedSchema": {"a\u{202e}": 1}}));
        assert_eq!(question().kind, QuestionKind::Elicit);
        assert!(Invisible::Show.question(question()).unwrap().params.get().contains('\u{200b}'));
        let stripped = Invisible::Strip.question(question()).unwrap().params;
        assert_eq!(stripped.get(), r#"{"message":"name?","requestedSchema":{"a":1}}"#);
        let failure = Invisible::Refuse.question(question()).unwrap_err();
        assert!(failure.message.starts_with("the question has 2 invisible characters (U+200B, U+202E)"), "{failure}");
        let progress = Progress { progress: 1.0, total: None, message: Some("a\u{1b}[2Jb".to_owned()) };
        let Notice::Progress(_, told) = Invisible::Refuse.notice(Notice::Progress(CallId(1), progress)) else {
            panic!()
        };
        assert_eq!(told.message.as_deref(), Some("a[2Jb"));
    }
}
