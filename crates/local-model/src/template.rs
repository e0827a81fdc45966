//! Renders a conversation as the text that a model was trained to continue.

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Value, context};

/// The template for files without one: the format that most small models were trained on.
const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}\
                      {% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// The chat template of a model.
#[derive(Debug, Clone)]
pub struct Template {
    source: String,
    start: String,
    end: String,
}

/// One message of a conversation, in the form that templates accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMessage {
    /// The role of the author.
    pub role: Role,
    /// The text.
    pub content: String,
}

/// The author of a message. Templates reject other roles, and two messages of one role in sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The instructions.
    System,
    /// The user, and tool results.
    User,
    /// The model.
    Assistant,
}

impl Template {
    /// Creates a template from a model file, with the spellings of the tokens that start and end a text.
    pub fn new(source: Option<&str>, start: &str, end: &str) -> Self {
        let source = source.filter(|source| !source.trim().is_empty()).unwrap_or(CHATML);
        Self { source: source.to_owned(), start: start.to_owned(), end: end.to_owned() }
    }

    /// Renders a conversation up to the point where the model continues.
    pub fn prompt(&self, messages: &[ChatMessage]) -> Result<String, String> {
        self.render(messages, true)
    }

    /// Renders the start of a conversation. `None` if the template rejects it.
    pub(crate) fn beginning(&self, messages: &[ChatMessage]) -> Option<String> {
        self.render(messages, false).ok()
    }

    fn render(&self, messages: &[ChatMessage], add_generation_prompt: bool) -> Result<String, String> {
        let mut environment = Environment::new();
        // Chat templates are written for these syntax settings.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.expect("the delimiters are the usual ones"));
        environment.add_function("raise_exception", |why: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, why))
        });
        let messages: Vec<Value> = messages
            .iter()
            .map(|message| context! { role => message.role.word(), content => message.content.as_str() })
            .collect();
        let values = context! {
            messages, add_generation_prompt, bos_token => self.start.as_str(), eos_token => self.end.as_str(),
        };
        environment
            .render_str(&self.source, values)
            .map_err(|why| format!("the model's own chat template cannot be used: {why}"))
    }
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

impl ChatMessage {
    /// Creates a message with this role.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The template in the file of SmolLM2.
    const SMOLLM: &str = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}\
        {{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}\
        {{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}\
        {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

    fn talk() -> [ChatMessage; 2] {
        [ChatMessage::new(Role::System, "Be short."), ChatMessage::new(Role::User, "Hello {{ there }}")]
    }

    #[test]
    fn a_file_without_a_template_gets_chatml() {
        let text = Template::new(None, "", "").prompt(&talk()).unwrap();
        assert_eq!(
            text,
            "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nHello {{ there }}<|im_end|>\n<|im_start|>assistant\n"
        );
    }

    #[test]
    fn the_template_of_the_small_model_brings_its_own_system_message() {
        let template = Template::new(Some(SMOLLM), "<|im_start|>", "<|im_end|>");
        assert_eq!(template.prompt(&talk()), Template::new(None, "", "").prompt(&talk()));
        let text = template.prompt(&talk()[1..]).unwrap();
        assert!(text.starts_with("<|im_start|>system\nYou are a helpful AI assistant named SmolLM"), "{text}");
    }

    #[test]
    fn the_beginning_of_a_conversation_begins_its_prompt() {
        let template = Template::new(Some(SMOLLM), "", "");
        let beginning = template.beginning(&talk()[..1]).unwrap();
        assert_eq!(beginning, "<|im_start|>system\nBe short.<|im_end|>\n");
        assert!(template.prompt(&talk()).unwrap().starts_with(&beginning));
    }

    #[test]
    fn tokens_for_start_and_end_and_refusals_are_understood() {
        let source = "{{ bos_token }}{% if messages|length > 1 %}{{ raise_exception('one at a time') }}{% endif %}\
                      {{ messages[0].content | trim }}{{ eos_token }}";
        let template = Template::new(Some(source), "<s>", "</s>");
        assert_eq!(template.prompt(&[ChatMessage::new(Role::User, " hi ")]).unwrap(), "<s>hi</s>");
        let refused = template.prompt(&talk()).unwrap_err();
        assert!(refused.contains("one at a time"), "{refused}");
    }
}
