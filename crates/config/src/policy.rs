//! `[policy]`, `[audit]`, `[access_log]` and `[profiles]` of the configuration.
//!
//! Conditions and classes of tools are parsed while the file is read. Errors in them are kept, and reported with their
//! place ([`PolicyConfig::take_mistakes`]).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use gladhand_core::Pattern;
use gladhand_hub::policy::{
    Callers, Effect, Expression, Handling, Invisible, Limit, NeededScopes, PinMode, Policy, Profile, Rate, Rule,
    Subjects, Tools,
};
use gladhand_schemas::Check;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::deserializer::SettingValue;

/// `[policy]`: rules, limits and checks of calls.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyConfig {
    /// Validate arguments and structured results against the tools' schemas.
    pub validate_arguments: bool,
    /// The reaction to a changed definition of a tool or prompt, and to changed instructions.
    pub pin: PinMode,
    /// Whether invisible text of upstreams passes, is stripped or is refused.
    pub invisible: Invisible,
    /// The reaction to violations of the negotiated agreement.
    pub violations: Handling,
    /// `[[policy.rules]]`: the first that matches a call decides.
    pub rules: Vec<RuleConfig>,
    /// `[[policy.limits]]`: all that fit a call hold for it.
    pub limits: Vec<LimitConfig>,
    /// Rules from files that may only narrow; the strictest decision holds. No key of the file sets it.
    #[serde(skip_deserializing, skip_serializing_if = "Vec::is_empty")]
    pub narrowing: Vec<Vec<RuleConfig>>,
}

impl PolicyConfig {
    /// Returns the rules and limits that cannot be used, as key and message. Without all of its items, a list would mean
    /// something else, so a list with such an item is emptied.
    pub(crate) fn take_mistakes(&mut self) -> Vec<(String, String)> {
        let numbered = |number: usize, rule: &RuleConfig| rule.mistakes(&format!("policy.rules#{}", number + 1));
        let of_rules: Vec<_> =
            self.rules.iter().enumerate().flat_map(|(number, rule)| numbered(number, rule)).collect();
        let limits = self.limits.iter().enumerate();
        let of_limits: Vec<_> =
            limits.flat_map(|(number, limit)| limit.mistakes(&format!("policy.limits#{}", number + 1))).collect();
        if !of_rules.is_empty() {
            self.rules.clear();
        }
        if !of_limits.is_empty() {
            self.limits.clear();
        }
        of_rules.into_iter().chain(of_limits).collect()
    }

    /// The mistakes of one item of `rules` or `limits` at a place. One that cannot be parsed has none.
    pub(crate) fn mistakes_of_item(list: &str, mut item: DeTable<'_>, place: &str) -> Vec<(String, String)> {
        match list {
            "rules" => {
                // The other keys are checked without an effect, too.
                if !item.contains_key("effect") {
                    let value = DeValue::String("deny".into());
                    item.insert(Spanned::new(0..0, "effect".into()), Spanned::new(0..0, value));
                }
                RuleConfig::deserialize(SettingValue::of(item)).map(|rule| rule.mistakes(place)).unwrap_or_default()
            }
            _ => {
                LimitConfig::deserialize(SettingValue::of(item)).map(|limit| limit.mistakes(place)).unwrap_or_default()
            }
        }
    }

    /// The policy that this, the profiles and the scopes of `[authorization]` make.
    pub fn policy(&self, profiles: &BTreeMap<String, ProfileConfig>, scopes: &BTreeMap<String, Vec<String>>) -> Policy {
        let needed = |(pattern, scopes): (&String, &Vec<String>)| NeededScopes {
            pattern: Pattern(pattern.clone()),
            scopes: scopes.clone(),
        };
        Policy {
            rules: rules(&self.rules),
            narrowing: self.narrowing.iter().map(|list| rules(list)).collect(),
            limits: self.limits.iter().enumerate().map(|(index, limit)| limit.limit(index)).collect(),
            profiles: profiles.iter().map(|(name, profile)| profile.profile(name)).collect(),
            pins: self.pin,
            scopes: scopes.iter().map(needed).collect(),
        }
    }
}

/// `[[policy.rules]]`
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleConfig {
    /// The name of the rule. Default: its number.
    pub name: Option<String>,
    /// The callers that the rule applies to: patterns of principals and client names.
    #[serde(default)]
    pub who: Vec<CallersText>,
    /// The upstreams that the rule applies to. Default: all.
    #[serde(default)]
    pub upstreams: Vec<String>,
    /// Tools that the rule applies to: patterns of shown names, `@readonly`, `@destructive`. Without tools, resources,
    /// prompts and capabilities, the rule applies to everything.
    #[serde(default)]
    pub tools: Vec<ToolsText>,
    /// Resources that the rule applies to: patterns of URIs.
    #[serde(default)]
    pub resources: Vec<String>,
    /// Prompts that the rule applies to: patterns of shown names.
    #[serde(default)]
    pub prompts: Vec<String>,
    /// Capabilities of A2E that the rule applies to: patterns of their names and of request types.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// A condition on the arguments.
    pub when: Option<Condition>,
    /// A JSON Schema that the arguments must satisfy.
    pub schema: Option<Schema>,
    /// The decision.
    pub effect: Effect,
    /// The reason, which callers and the operator see.
    #[serde(default)]
    pub reason: String,
}

impl RuleConfig {
    /// A rule that denies everything to every caller.
    pub(super) fn deny_everything(name: &str, reason: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            who: Vec::new(),
            upstreams: Vec::new(),
            tools: Vec::new(),
            resources: Vec::new(),
            prompts: Vec::new(),
            capabilities: Vec::new(),
            when: None,
            schema: None,
            effect: Effect::Deny,
            reason: reason.to_owned(),
        }
    }

    fn mistakes(&self, key: &str) -> Vec<(String, String)> {
        let mut mistakes = wrong_tools(&self.tools, key);
        if let Some(Err(problem)) = self.when.as_ref().map(|when| &when.parsed) {
            mistakes.push((format!("{key}.when"), problem.clone()));
        }
        mistakes
            .extend(self.schema.as_ref().and_then(Schema::problem).map(|problem| (format!("{key}.schema"), problem)));
        mistakes
    }

    fn rule(&self, index: usize) -> Rule {
        Rule {
            name: named(self.name.as_ref(), index),
            who: valid(&self.who),
            about: Subjects {
                upstreams: patterns(&self.upstreams),
                tools: valid(&self.tools),
                resources: patterns(&self.resources),
                prompts: patterns(&self.prompts),
                capabilities: patterns(&self.capabilities),
            },
            when: self.when.as_ref().and_then(|when| when.parsed.clone().ok()),
            // The schema was valid when the file was read.
            schema: self.schema.as_ref().and_then(|schema| schema.check().ok()).map(|check| Box::new(check) as _),
            effect: self.effect,
            reason: self.reason.clone(),
        }
    }
}

/// `[[policy.limits]]`
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct LimitConfig(LimitText);

impl LimitConfig {
    fn mistakes(&self, key: &str) -> Vec<(String, String)> {
        let LimitText { tools, calls, concurrent, timeout_ms, result_bytes, .. } = &self.0;
        let mut mistakes = wrong_tools(tools, key);
        if calls.is_none() && concurrent.is_none() && timeout_ms.is_none() && result_bytes.is_none() {
            let problem = "a limit needs one of `calls`, `concurrent`, `timeout_ms` and `result_bytes`";
            mistakes.push((key.to_owned(), problem.to_owned()));
        }
        mistakes
    }

    fn limit(&self, index: usize) -> Limit {
        let text = &self.0;
        Limit {
            name: named(text.name.as_ref(), index),
            who: valid(&text.who),
            about: Subjects {
                upstreams: patterns(&text.upstreams),
                tools: valid(&text.tools),
                resources: patterns(&text.resources),
                prompts: patterns(&text.prompts),
                capabilities: patterns(&text.capabilities),
            },
            together: text.together,
            rate: text.calls.map(|calls| Rate { calls, per: Duration::from_secs(text.per_s) }),
            concurrent: text.concurrent,
            timeout: text.timeout_ms.map(Duration::from_millis),
            result_bytes: text.result_bytes,
        }
    }
}

#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LimitText {
    /// The name of the limit. Default: its number.
    name: Option<String>,
    /// The callers that the limit applies to: patterns of principals and client names.
    #[serde(default)]
    who: Vec<CallersText>,
    /// The upstreams that the limit applies to. Default: all.
    #[serde(default)]
    upstreams: Vec<String>,
    /// Tools that the limit applies to: patterns of shown names, `@readonly`, `@destructive`.
    #[serde(default)]
    tools: Vec<ToolsText>,
    /// Resources that the limit applies to: patterns of URIs.
    #[serde(default)]
    resources: Vec<String>,
    /// Prompts that the limit applies to: patterns of shown names.
    #[serde(default)]
    prompts: Vec<String>,
    /// Capabilities of A2E that the limit applies to: patterns of their names and of request types.
    #[serde(default)]
    capabilities: Vec<String>,
    /// Whether all callers share it.
    #[serde(default)]
    together: bool,
    /// Calls in the time of `per_s`.
    #[schemars(range(min = 1, max = 4_294_967_295u64), extend("x-advice" = "to forbid something, write a rule"))]
    calls: Option<u32>,
    /// The seconds that `calls` counts in.
    #[serde(default = "a_minute")]
    #[schemars(range(min = 1, max = 86_400))]
    per_s: u64,
    /// Calls that may run at once.
    #[schemars(range(min = 1), extend("x-advice" = "to forbid something, write a rule"))]
    concurrent: Option<usize>,
    /// How long a call may take, in milliseconds.
    #[schemars(range(min = 1), extend("x-advice" = "to forbid something, write a rule"))]
    timeout_ms: Option<u64>,
    /// Bytes of a result.
    #[schemars(range(min = 1), extend("x-advice" = "to forbid something, write a rule"))]
    result_bytes: Option<usize>,
}

fn a_minute() -> u64 {
    60
}

/// `[profiles.NAME]`: the tools that certain callers see.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProfileConfig {
    /// The callers that the profile applies to: patterns of principals and client names.
    pub who: Vec<CallersText>,
    /// Visible upstreams. Default: all.
    pub upstreams: Vec<String>,
    /// Visible tools. Default: all.
    pub only: Vec<String>,
    /// Hidden tools.
    pub hide: Vec<String>,
    /// Tools with another visible name.
    pub rename: BTreeMap<String, String>,
}

impl ProfileConfig {
    fn profile(&self, name: &str) -> Profile {
        Profile {
            name: name.to_owned(),
            who: valid(&self.who),
            upstreams: patterns(&self.upstreams),
            only: patterns(&self.only),
            hidden: patterns(&self.hide),
            renamed: self.rename.clone(),
        }
    }
}

/// `[audit]`: the records that are written for each call.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AuditConfig {
    /// The file. Without it, no records are written.
    pub file: Option<PathBuf>,
    /// Start a new file at this size.
    pub max_bytes: u64,
    /// How many older files are kept.
    #[schemars(range(min = 0, max = 4_294_967_295u64))]
    pub keep: u32,
    /// Whether records contain arguments and results.
    pub payloads: bool,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self { file: None, max_bytes: 16 * 1024 * 1024, keep: 4, payloads: false }
    }
}

/// `[access_log]`: one line for each call, for operators.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AccessLogConfig {
    /// The file. Without it, no lines are written.
    pub file: Option<PathBuf>,
    /// Start a new file at this size.
    pub max_bytes: u64,
    /// How many older files are kept.
    #[schemars(range(min = 0, max = 4_294_967_295u64))]
    pub keep: u32,
}

impl Default for AccessLogConfig {
    fn default() -> Self {
        Self { file: None, max_bytes: 16 * 1024 * 1024, keep: 4 }
    }
}

/// A value with the text of the file that it was parsed from.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "String", bound = "T: FromText")]
pub struct Written<T> {
    text: String,
    /// The parsed value, or the error.
    parsed: Result<T, String>,
}

impl<T> Serialize for Written<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<T: FromText> From<String> for Written<T> {
    fn from(text: String) -> Self {
        Self { parsed: T::parsed(&text), text }
    }
}

/// A pattern of callers.
pub(crate) type CallersText = Written<Callers>;

/// A pattern or a class of tools.
pub(crate) type ToolsText = Written<Tools>;

/// A condition on arguments.
pub(crate) type Condition = Written<Expression>;

/// Values of the hub that the file has as text.
pub trait FromText: Sized {
    /// Parses the text, or returns the mistake in it.
    fn parsed(text: &str) -> Result<Self, String>;
}

impl FromText for Callers {
    fn parsed(text: &str) -> Result<Self, String> {
        Ok(Self::parse(text))
    }
}

impl FromText for Tools {
    fn parsed(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|error| error.to_string())
    }
}

impl FromText for Expression {
    fn parsed(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|error| error.to_string())
    }
}

/// A JSON Schema, written in TOML.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Schema(serde_json::Value);

impl Schema {
    /// The schema.
    pub fn value(&self) -> &serde_json::Value {
        &self.0
    }

    /// The error, if there is one.
    pub(crate) fn problem(&self) -> Option<String> {
        let problem = self.check().err()?;
        Some(format!("this schema cannot be used: {problem}"))
    }

    /// Compiles it, or returns the reason why it cannot be used.
    fn check(&self) -> Result<Check, String> {
        Check::compile(&self.0.to_string())
    }
}

/// Classes of tools that do not exist.
fn wrong_tools(texts: &[ToolsText], key: &str) -> Vec<(String, String)> {
    let wrong = texts.iter().enumerate().filter_map(|(at, text)| Some((at, text.parsed.as_ref().err()?)));
    wrong.map(|(at, problem)| (format!("{key}.tools#{}", at + 1), problem.clone())).collect()
}

fn named(name: Option<&String>, index: usize) -> String {
    name.cloned().unwrap_or_else(|| format!("#{}", index + 1))
}

/// Rules of a project file, whose names say so.
pub(super) fn of_project(rules: &[RuleConfig]) -> Vec<RuleConfig> {
    let name = |index: usize, rule: &RuleConfig| format!("project {}", named(rule.name.as_ref(), index));
    let rules = rules.iter().enumerate();
    rules.map(|(index, rule)| RuleConfig { name: Some(name(index, rule)), ..rule.clone() }).collect()
}

fn rules(configs: &[RuleConfig]) -> Vec<Rule> {
    configs.iter().enumerate().map(|(index, rule)| rule.rule(index)).collect()
}

/// The values that could be parsed.
fn valid<T: Clone>(texts: &[Written<T>]) -> Vec<T> {
    texts.iter().filter_map(|text| text.parsed.clone().ok()).collect()
}

fn patterns(texts: &[String]) -> Vec<Pattern> {
    texts.iter().cloned().map(Pattern).collect()
}
