//! `gladhand policy`: explains what policy makes of a call, and approves definitions that changed.

pub(in crate::commands) mod definition_changes;

use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::{Args, Subcommand, ValueHint};
use gladhand_core::operations::Tool;
use gladhand_core::wire::{RawValue, json as wire};
use gladhand_hub::policy::{CallTarget, Explanation, Kind, PinMode, Policy, Who};
use gladhand_hub::{Provider, SessionId};
use serde_json::json;

use self::definition_changes::{Changes, Extent};
use crate::commands::serve::Memory;
use crate::commands::shared::hidden_tools::{Named, prefixes_of, remembered};
use crate::commands::shared::references::Sources;
use crate::commands::shared::settings::{self, Part, Settings};
use crate::commands::shared::suggest;
use crate::commands::{CommandError, print_json, print_report, written};
use crate::config::{self, Reading, env};
use crate::exit::Exit;
use crate::pins::{self, Approval, PinFile, Waiting};
use crate::providers::Toolbox;
use crate::terminal::text::{plain, plain_lines};

/// The error for `--as`.
const MOVED: &str = "the caller is named with --principal";

const POLICY_HELP: &str = "\
Examples:
  gladhand policy test git__push --args '{\"branch\": \"main\"}' --principal ann
  gladhand policy approve            list the pending changes
  gladhand policy approve git__push  approve a listed change";

const TEST_HELP: &str = "\
Examples:
  gladhand policy test git__push --args '{\"branch\": \"main\"}' --principal ann
  gladhand policy test git__status --read-only --client cursor --json
  gladhand policy test vault://keys --kind resource --principal ann";

const APPROVE_HELP: &str = "\
Only a change that was listed in full before can be approved.

Examples:
  gladhand policy approve
  gladhand policy approve --full git__push
  gladhand policy approve git__push
  gladhand policy approve --json";

/// Options of `policy`.
#[derive(Debug, Args)]
#[command(after_help = POLICY_HELP)]
pub struct PolicyArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: PolicyCommand,
}

/// What `policy` does.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Explain, rule by rule, how policy decides a call, without calling anything.
    Test(PolicyTestArgs),
    /// List changed tools, prompts and instructions, or approve them by name.
    Approve(PolicyApproveArgs),
}

/// Options of `policy test`.
#[derive(Debug, Args)]
#[command(after_help = TEST_HELP)]
pub struct PolicyTestArgs {
    /// Shown name of a tool or prompt, URI of a resource, or request type of an A2E capability.
    #[arg(value_name = "NAME")]
    pub tool: String,
    /// Kind of the target: `tool`, `resource`, `prompt` or `capability`.
    #[arg(long, value_name = "KIND", default_value = "tool", value_parser = Kind::parse)]
    pub kind: Kind,
    /// Arguments of the call.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub args: String,
    /// Principal of the caller, as in `who` of a rule: the name of its token, or issuer and subject of its JWT, separated
    /// by a space [default: a caller without a token].
    #[arg(long, value_name = "PRINCIPAL")]
    pub principal: Option<String>,
    /// Not taken: in every other command it names the dialect to speak. It is here so that we say what is meant.
    #[arg(long = "as", value_name = "PRINCIPAL", hide = true, value_parser = |_: &str| Err::<(), _>(MOVED))]
    pub moved: Option<()>,
    /// Name that the client declares.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub client: String,
    /// Upstream of the tool, for profiles.
    #[arg(long, value_name = "NAME")]
    pub upstream: Option<String>,
    /// Assume that the tool declares itself read-only.
    #[arg(long)]
    pub read_only: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Configuration file [default: your own, and ./gladhand.toml if you trust it].
    #[arg(long, value_name = "FILE", env = env::CONFIG, value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Data folder [default: the user's data folder].
    #[arg(long, value_name = "DIR", env = env::DATA_DIR, value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
}

/// Options of `policy approve`.
#[derive(Debug, Args)]
#[command(after_help = APPROVE_HELP)]
pub struct PolicyApproveArgs {
    /// Shown names of tools and prompts, or `instructions:UPSTREAM`.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// List the changes in full, those of NAME or all, and approve nothing.
    #[arg(long)]
    pub full: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Configuration file [default: your own, and ./gladhand.toml if you trust it].
    #[arg(long, value_name = "FILE", env = env::CONFIG, value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Data folder [default: the user's data folder].
    #[arg(long, value_name = "DIR", env = env::DATA_DIR, value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
}

/// Does what was asked for.
pub fn run(args: &PolicyArgs) -> Result<ExitCode, CommandError> {
    match &args.command {
        PolicyCommand::Test(args) => test(args),
        PolicyCommand::Approve(args) => approve(args),
    }
}

fn test(args: &PolicyTestArgs) -> Result<ExitCode, CommandError> {
    let data = config::data_dir(args.data_dir.as_deref());
    let loaded = settings::load(args.config.as_deref(), data.as_deref(), Part::AsWritten, settings::note);
    let Settings { config, layers } = loaded.map_err(CommandError::usage)?;
    let policy = config.policy.policy(&config.profiles, &config.authorization.tool_scopes);
    let arguments = match (args.kind, args.args.as_str()) {
        // Conditions about a resource see its URI.
        (Kind::Resource, "{}") => wire::to_raw(&json!({ "uri": args.tool })),
        (_, text) => serde_json::from_str::<Box<RawValue>>(text)
            .map_err(|error| CommandError::usage(anyhow!("--args is not JSON: {error}")))?,
    };
    let ours = Toolbox.tools().into_iter().find(|tool| tool.name == args.tool);
    if ours.is_none() && args.kind == Kind::Tool && std::io::stderr().is_terminal() {
        let note =
            "no server is asked whether there is such a tool; rules see the name as it is shown, as in `git__push`";
        super::note(&format!("note: {note}"));
    }
    let mut tool = ours.unwrap_or_else(|| Tool::plain(args.tool.clone(), ""));
    if args.read_only {
        tool = tool.with("annotations", &json!({"readOnlyHint": true}));
    }
    let principal = args.principal.as_deref().map(|name| name.strip_prefix("principal:").unwrap_or(name));
    let who = Who { principal, client: &args.client, session: SessionId::NONE, scopes: None };
    // Lists are remembered by the command or address as it is used, with everything that it refers to.
    let sources = Sources::with_store_in(data.clone());
    let used = sources.lookup(|lookup| layers.examine(Reading::Whole(lookup))).config.unwrap_or_default();
    let named = Named { kind: args.kind, name: &args.tool, upstream: args.upstream.as_deref() };
    let known = remembered(named, &used, &Memory::in_folder(data));
    let of_known = known.as_ref().map(|known| known.upstream.as_str());
    let upstream = args.upstream.as_deref().or(of_known).unwrap_or_default();
    let own = known.as_ref().map_or(args.tool.as_str(), |known| &known.own);
    let natural = known.as_ref().and_then(|known| known.natural.as_deref());
    let mut prefixes = prefixes_of(&args.tool, &config);
    let prefix = prefixes.pop();
    let what = match args.kind {
        Kind::Tool => CallTarget::tool(upstream, own, &tool),
        Kind::Capability => {
            let capability = args.tool.split('/').next().unwrap_or_default();
            CallTarget::named(args.kind, upstream, capability, &args.tool)
        }
        kind => CallTarget::named(kind, upstream, own, &args.tool),
    };
    let what = what.among(prefix.as_deref(), &prefixes).instead_of(natural);
    let explanation = policy.explain(&who, &what, &arguments);
    match args.json {
        true => print_json(&as_json(&policy, &who, &what, natural, &explanation))?,
        false => {
            let text = as_text(&policy, &who, &what, natural, &arguments, &explanation);
            written(writeln!(std::io::stdout(), "{}", plain_lines(&text)))?;
        }
    }
    Ok(Exit::Success.into())
}

fn as_json(
    policy: &Policy,
    who: &Who<'_>,
    what: &CallTarget<'_>,
    natural: Option<&str>,
    explanation: &Explanation,
) -> String {
    let profile = policy.profile(who);
    let told = json!({
        "kind": what.kind,
        "tool": what.name,
        "natural": natural,
        "principal": who.principal,
        "client": who.client,
        "profile": profile.map(|profile| &profile.name),
        "seen_as": profile.map_or_else(|| Some(what.name.to_owned()), |profile| profile.shown(what)),
        "listed": policy.denied_always(who, what).is_none(),
        "decision": explanation.decision,
        "rules": explanation.rules,
    });
    told.to_string()
}

fn as_text(
    policy: &Policy,
    who: &Who<'_>,
    what: &CallTarget<'_>,
    natural: Option<&str>,
    arguments: &RawValue,
    explanation: &Explanation,
) -> String {
    let mut lines = vec![format!("{:<9} {} {}", what.kind.word(), what.name, arguments.get())];
    lines.extend(natural.map(|name| format!("also      {name}, which names another tool too")));
    lines.push(format!("principal {}", who.principal.unwrap_or("-")));
    lines.push(format!("client    {}", if who.client.is_empty() { "-" } else { who.client }));
    if let Some(profile) = policy.profile(who) {
        let seen = profile.shown(what).map_or_else(|| "not seen".to_owned(), |name| format!("seen as {name}"));
        lines.push(format!("profile   {}: {seen}", profile.name));
    }
    for rule in &explanation.rules {
        lines.push(format!("rule      {} ({}): {}", rule.rule, rule.effect, rule.verdict));
    }
    if explanation.rules.is_empty() {
        lines.push("rule      none".to_owned());
    }
    if policy.denied_always(who, what).is_some() {
        lines.push("list      not listed: denied with any arguments".to_owned());
    }
    lines.push(format!("decision  {}", explanation.decision));
    lines.join("\n")
}

fn approve(args: &PolicyApproveArgs) -> Result<ExitCode, CommandError> {
    let folder = config::data_dir(args.data_dir.as_deref()).ok_or_else(|| anyhow!("there is no data folder"))?;
    let file = PinFile::open(folder.join(pins::NAME))?;
    let loaded = settings::load(args.config.as_deref(), Some(&folder), Part::WithoutUpstreams, settings::note);
    let Settings { config, .. } = loaded.map_err(CommandError::usage)?;
    if config.policy.pin == PinMode::Off {
        let note = "`pin` of [policy] is off in this configuration: no tool is stopped when it changes";
        super::note(&format!("note: {note}"));
    }
    let extent = if args.full { Extent::Full } else { Extent::Short };
    let mut waiting = file.waiting();
    if args.full && !args.names.is_empty() {
        waiting.retain(|one| one.is_named(&args.names));
    }
    if args.names.is_empty() || args.full && !waiting.is_empty() {
        let seen = list(&waiting, extent, args.json)?;
        file.note_listed(&seen)?;
        return Ok(Exit::Success.into());
    }
    let approval = if args.full { Approval::default() } else { file.approve(&args.names)? };
    let Approval { approved, unlisted } = approval;
    if let [first, ..] = &unlisted[..] {
        return Err(not_approved(first, &unlisted, &file, args.json)?);
    }
    if approved.is_empty() {
        let error = anyhow!("nothing of that name waits to be approved");
        return Err(CommandError::usage(error).hint("without a name, what waits is listed"));
    }
    if args.json {
        return print_report(json!({ "approved": approved }), None);
    }
    for name in approved {
        written(writeln!(std::io::stdout(), "approved {}", plain(&name)))?;
    }
    Ok(Exit::Success.into())
}

/// The error for changes that were not shown in full yet. It shows them, unless a program asks.
fn not_approved(
    first: &Waiting,
    unlisted: &[Waiting],
    file: &PinFile,
    as_json: bool,
) -> Result<CommandError, CommandError> {
    let name = plain(&first.name);
    if first.after.is_none() {
        let error = anyhow!("`{name}` is not approved: its new definition is too long to be kept and shown");
        let hint = "`hide` of its upstream leaves it out; delete its entry in pins.json to pin it unseen";
        return Ok(CommandError::usage(error).hint(hint));
    }
    let error = anyhow!("`{name}` changed after it was last listed in full, so it is not approved");
    if as_json {
        return Ok(CommandError::usage(error).hint("`gladhand policy approve --full` lists the change"));
    }
    let seen = list(unlisted, Extent::Short, false)?;
    file.note_listed(&seen)?;
    let hint = match unlisted.iter().find(|one| !seen.contains(one)) {
        Some(cut) => full_hint(cut),
        None => "read the change above, then run the same command again".to_owned(),
    };
    Ok(CommandError::usage(error).hint(hint))
}

fn full_hint(one: &Waiting) -> String {
    let name = suggest::shell_word(&one.name);
    format!("run `gladhand policy approve --full {name}` to see all of it, then approve")
}

/// Lists what waits to be approved. Returns the changes that were shown in full.
fn list(waiting: &[Waiting], extent: Extent, as_json: bool) -> Result<Vec<Waiting>, CommandError> {
    let changed =
        |one: &Waiting| one.after.as_ref().map(|after| Changes::between(one.before.as_deref(), after, extent));
    let changes: Vec<_> = waiting.iter().map(changed).collect();
    let is_complete = |changes: &Option<Changes>| changes.as_ref().is_some_and(|changes| changes.is_complete);
    let seen = waiting.iter().zip(&changes).filter(|(_, changes)| is_complete(changes));
    let seen = seen.map(|(one, _)| one.clone()).collect();
    if as_json {
        let each = waiting.iter().zip(&changes).map(|(one, changes)| {
            let Waiting { name, since, at, .. } = one;
            let lines = changes.as_ref().map(|changes| &changes.lines);
            json!({ "name": name, "since": since, "at": at, "changes": lines, "complete": is_complete(changes) })
        });
        print_report(json!({ "waiting": each.collect::<Vec<_>>() }), None)?;
        return Ok(seen);
    }
    let mut out = std::io::stdout();
    for (one, changes) in waiting.iter().zip(&changes) {
        let Waiting { name, since, at, .. } = one;
        written(writeln!(out, "{}: known since {since}, changed at {at}", plain(name)))?;
        let Some(changes) = changes else {
            written(writeln!(out, "    the change cannot be shown: the definition is too long to be kept"))?;
            continue;
        };
        if one.before.is_none() {
            written(writeln!(out, "    the old definition was not kept; this is the new one:"))?;
        }
        for line in &changes.lines {
            written(writeln!(out, "    {line}"))?;
        }
        if !changes.is_complete {
            written(writeln!(out, "    not everything is shown: {}", plain(&full_hint(one))))?;
        }
    }
    Ok(seen)
}
