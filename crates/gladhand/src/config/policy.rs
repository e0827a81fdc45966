//! `[policy]`, `[audit]` and `[profiles]` of the configuration.
//!
//! Conditions and schemas are parsed while the file is read, so that a mistake in them is reported with its line.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use gladhand_core::Pattern;
use gladhand_hub::policy::{
    Callers, Effect, Expression, ExpressionError, Handling, Invisible, Limit, NeededScopes, PinMode, Policy, Profile,
    Rate, Rule, Subjects, Tools, UnknownClass,
};
use gladhand_schemas::Check;
use serde::{Deserialize, Serialize, Serializer};

/// `[policy]`: rules, limits and checks of calls.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
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
#[derive(Debug, Clone, Deserialize, Serialize)]
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

    fn rule(&self, index: usize) -> Rule {
        Rule {
            name: named(self.name.as_ref(), index),
            who: callers(&self.who),
            about: Subjects {
                upstreams: patterns(&self.upstreams),
                tools: tools(&self.tools),
                resources: patterns(&self.resources),
                prompts: patterns(&self.prompts),
                capabilities: patterns(&self.capabilities),
            },
            when: self.when.as_ref().map(|when| when.0.meant.clone()),
            // The schema was valid when the file was read.
            schema: self.schema.as_ref().and_then(|schema| schema.check().ok()).map(|check| Box::new(check) as _),
            effect: self.effect,
            reason: self.reason.clone(),
        }
    }
}

/// `[[policy.limits]]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(try_from = "LimitText")]
pub struct LimitConfig(LimitText);

impl LimitConfig {
    fn limit(&self, index: usize) -> Limit {
        let text = &self.0;
        Limit {
            name: named(text.name.as_ref(), index),
            who: callers(&text.who),
            about: Subjects {
                upstreams: patterns(&text.upstreams),
                tools: tools(&text.tools),
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

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct LimitText {
    name: Option<String>,
    #[serde(default)]
    who: Vec<CallersText>,
    #[serde(default)]
    upstreams: Vec<String>,
    #[serde(default)]
    tools: Vec<ToolsText>,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    prompts: Vec<String>,
    #[serde(default)]
    capabilities: Vec<String>,
    #[serde(default)]
    together: bool,
    calls: Option<u32>,
    #[serde(default = "a_minute")]
    per_s: u64,
    concurrent: Option<usize>,
    timeout_ms: Option<u64>,
    result_bytes: Option<usize>,
}

fn a_minute() -> u64 {
    60
}

impl TryFrom<LimitText> for LimitConfig {
    type Error = &'static str;

    fn try_from(text: LimitText) -> Result<Self, Self::Error> {
        let bounds = [
            text.calls.map(u64::from),
            text.concurrent.map(|count| count as u64),
            text.timeout_ms,
            text.result_bytes.map(|bytes| bytes as u64),
        ];
        if bounds.iter().all(Option::is_none) {
            return Err("a limit needs one of `calls`, `concurrent`, `timeout_ms` and `result_bytes`");
        }
        if bounds.contains(&Some(0)) {
            return Err("the bounds of a limit must be at least 1; to forbid something, write a rule");
        }
        if !(1..=86_400).contains(&text.per_s) {
            return Err("`per_s` must be from 1 to 86400");
        }
        Ok(Self(text))
    }
}

/// `[profiles.NAME]`: the tools that certain callers see.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
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
            who: callers(&self.who),
            upstreams: patterns(&self.upstreams),
            only: patterns(&self.only),
            hidden: patterns(&self.hide),
            renamed: self.rename.clone(),
        }
    }
}

/// `[audit]`: the records that are written for each call.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditConfig {
    /// The file. Without it, no records are written.
    pub file: Option<PathBuf>,
    /// Start a new file at this size.
    pub max_bytes: u64,
    /// How many older files are kept.
    pub keep: u32,
    /// Whether records contain arguments and results.
    pub payloads: bool,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self { file: None, max_bytes: 16 * 1024 * 1024, keep: 4, payloads: false }
    }
}

/// A parsed value with its original text.
#[derive(Debug, Clone)]
struct Written<T> {
    text: String,
    meant: T,
}

impl<T> Serialize for Written<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// A pattern of callers.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(from = "String")]
pub struct CallersText(Written<Callers>);

impl From<String> for CallersText {
    fn from(text: String) -> Self {
        Self(Written { meant: Callers::parse(&text), text })
    }
}

/// A pattern or a class of tools.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(try_from = "String")]
pub struct ToolsText(Written<Tools>);

impl TryFrom<String> for ToolsText {
    type Error = UnknownClass;

    fn try_from(text: String) -> Result<Self, UnknownClass> {
        Ok(Self(Written { meant: Tools::parse(&text)?, text }))
    }
}

/// A condition on arguments.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(try_from = "String")]
pub struct Condition(Written<Expression>);

impl TryFrom<String> for Condition {
    type Error = ExpressionError;

    fn try_from(text: String) -> Result<Self, ExpressionError> {
        Ok(Self(Written { meant: Expression::parse(&text)?, text }))
    }
}

/// A JSON Schema, written in TOML.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(try_from = "serde_json::Value")]
pub struct Schema(serde_json::Value);

impl Schema {
    /// The schema.
    pub(crate) fn value(&self) -> &serde_json::Value {
        &self.0
    }

    /// Compiles it, or returns the reason why it cannot be used.
    fn check(&self) -> Result<Check, String> {
        Check::compile(&self.0.to_string())
    }
}

impl TryFrom<serde_json::Value> for Schema {
    type Error = String;

    fn try_from(schema: serde_json::Value) -> Result<Self, String> {
        let schema = Self(schema);
        match schema.check() {
            Ok(_) => Ok(schema),
            Err(problem) => Err(format!("this schema cannot be used: {problem}")),
        }
    }
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

fn callers(texts: &[CallersText]) -> Vec<Callers> {
    texts.iter().map(|text| text.0.meant.clone()).collect()
}

fn patterns(texts: &[String]) -> Vec<Pattern> {
    texts.iter().cloned().map(Pattern).collect()
}

fn tools(texts: &[ToolsText]) -> Vec<Tools> {
    texts.iter().map(|text| text.0.meant.clone()).collect()
}
