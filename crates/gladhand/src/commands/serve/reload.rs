//! Follows the configuration files while we serve.
//!
//! The toolbox, the upstreams, the policy with its profiles, and the tokens that open our endpoints follow; a change
//! elsewhere needs a restart, and the log says so. A file that is wrong changes nothing, and the log says so once.
//!
//! A change in a file that one of our own tools could have written narrows at once, and widens only after the user trusted it
//! (`config::Config::narrowed_by`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gladhand_hub::Hub;
use gladhand_server::control::{ChangeStatus, WaitingChange};

use super::mounted::Mounted;
use crate::agent::LaterAgent;
use crate::authorization::FollowedAccess;
use crate::commands::shared::references::Sources;
use crate::config::{
    self, Approve, Config, ConfigError, File, Grants, Layers, Loaded, Project, Reading, Standing, TrustStore,
};
use crate::{from_config, policy_setup};

/// How often the file is looked at.
const PERIOD: Duration = Duration::from_secs(1);

/// Sections that follow the file.
const FOLLOWING: [&str; 5] = ["upstreams", "toolbox", "policy", "profiles", "authorization"];

/// Keys that follow the file in sections that do not.
const FOLLOWING_KEYS: [(&str, &str); 6] = [
    ("a2e", "tokens"),
    ("a2e", "agents"),
    ("agent", "approve"),
    ("agent", "allow"),
    ("agent", "ask"),
    ("agent", "deny"),
];

/// Follows a file for ever: reads it each second, and when SIGHUP comes and means that. It is small, and its text is a better witness of
/// a change than its time.
pub(super) async fn follow(mut reader: Reader, mut following: Following, hang_up: HangUp) {
    let mut hangups = Hangups::listen(hang_up);
    loop {
        let is_asked_for = tokio::select! {
            () = tokio::time::sleep(PERIOD) => false,
            () = hangups.next() => true,
        };
        let Some(change) = reader.look(is_asked_for) else { continue };
        // A tool may have written the file, and no call waits until a long one is read.
        let load = move || {
            let config = reader.load(change);
            (reader, config)
        };
        let config;
        (reader, config) = match tokio::task::spawn_blocking(load).await {
            Ok(loaded) => loaded,
            Err(error) => return tracing::error!(%error, "the configuration is not followed any more"),
        };
        if let Some(config) = config {
            following.follow(&config);
        }
    }
}

/// Everything that is updated when the configuration changes.
#[derive(Debug)]
pub(super) struct Following {
    mounted: Mounted,
    hub: Hub,
    access: Arc<FollowedAccess>,
    agent: Option<Arc<LaterAgent>>,
    /// Where pins are kept.
    data_dir: Option<PathBuf>,
    /// The policy that is in force, as it is written.
    policy: serde_json::Value,
}

impl Following {
    /// Begins with what is in force.
    pub(super) fn new(
        mounted: Mounted,
        hub: Hub,
        access: Arc<FollowedAccess>,
        data_dir: Option<PathBuf>,
        config: &Config,
    ) -> Self {
        Self { mounted, hub, access, agent: None, data_dir, policy: written(config) }
    }

    /// The rules of this agent follow, too.
    pub(super) fn with(self, agent: Option<Arc<LaterAgent>>) -> Self {
        Self { agent, ..self }
    }

    /// Lets in those whom the configuration names now, and no one else. Says whether it could.
    fn follow_access(&self, config: &Config) -> bool {
        let token = config::token_in_environment().map_err(|error| error.to_string());
        let followed = token.and_then(|token| {
            let followed = from_config::follow(&self.access, config, token);
            followed.map_err(|error| error.to_string())
        });
        match &followed {
            Ok(true) => tracing::info!("tokens follow the configuration"),
            Ok(false) => {}
            Err(error) => tracing::error!("the old configuration stays in force: {error}"),
        }
        followed.is_ok()
    }

    /// Does as the configuration says now.
    fn follow(&mut self, config: &Config) {
        // Who may come in first: what is wrong with the rest does not keep a token alive that was taken back.
        if !self.follow_access(config) {
            return;
        }
        if let Some(agent) = &self.agent {
            agent.follow(&config.agent);
        }
        let policy = written(config);
        // The policy first: what is new is under it from the beginning.
        if policy != self.policy {
            if let Err(error) = policy_setup::apply(&self.hub, config, self.data_dir.as_deref()) {
                tracing::error!("the old configuration stays in force: the policy cannot be applied: {error}");
                return;
            }
            self.policy = policy;
            tracing::info!("the policy follows the configuration");
        }
        let change = self.mounted.update(config);
        if change.is_empty() {
            return;
        }
        self.hub.require(self.mounted.required());
        self.hub.remount(self.mounted.mounts());
        if self.hub.has_resource_without_provider() {
            // A new upstream may have the resource, and lists it only after it has started.
            let hub = self.hub.clone();
            tokio::spawn(async move { hub.settled().await });
        }
        let (added, removed, replaced) = (change.added.join(","), change.removed.join(","), change.replaced.join(","));
        tracing::info!(
            added,
            removed,
            replaced,
            renamed = change.renamed.join(","),
            "upstreams follow the configuration"
        );
        // Close removed upstreams in the background, so that a slow one does not delay the others.
        tokio::spawn(futures_util::future::join_all(change.closing));
    }
}

/// The policy of a configuration, so that it can be compared.
fn written(config: &Config) -> serde_json::Value {
    serde_json::to_value((&config.policy, &config.profiles, &config.authorization.tool_scopes)).unwrap_or_default()
}

/// The files, as they were when they were last read.
#[derive(Debug)]
pub(super) struct Reader {
    /// The file that the operator named.
    named: Option<PathBuf>,
    trust: TrustStore,
    sources: Sources,
    /// The files as they were read last, right or wrong, and whether their change waits for trust.
    seen: (Layers, bool),
    /// The files whose content was last in force as a whole, and their configuration. It decides which files are exposed:
    /// a tool that removes its own upstream from a file has still written that file.
    approved: (Layers, Config),
    /// The value from the command line that overrides `agent.approve`.
    approve: Option<Approve>,
    /// The settings in force: the approved ones, narrowed by later changes.
    in_force: Config,
    /// Whether the files could not be read, and the log says so.
    is_unreadable: bool,
    /// Whether the project file was not there when it was last looked for.
    is_away: bool,
    /// The settings that hold until the next start, where they do not follow.
    started_with: toml::Table,
    /// The settings as they were last right.
    settings: toml::Table,
    /// The report about a change that waits.
    status: ChangeStatus,
}

/// The files, which are to be read.
struct Change {
    layers: Layers,
    pending: Option<Pending>,
    /// Whether the files cannot be read, and only the project's trust was taken back.
    is_revocation: bool,
}

/// A change that waits for trust.
struct Pending {
    file: PathBuf,
    /// Whether a tool could have written the records of trust, so that they count for nothing.
    is_forgeable: bool,
}

impl Pending {
    /// The change as it is reported.
    fn waiting(&self) -> WaitingChange {
        let file = self.file.display().to_string();
        let command = (!self.is_forgeable).then(|| format!("gladhand config trust {file}"));
        WaitingChange { file, command }
    }
}

impl Reader {
    /// Begins with the configuration that is in force.
    pub(super) fn new(named: Option<PathBuf>, data: Option<&Path>, layers: Layers, in_force: Config) -> Self {
        let settings = lasting(layers.own.as_ref());
        Self {
            named,
            trust: TrustStore::in_folder(data),
            sources: Sources::with_store_in(data.map(Path::to_owned)),
            seen: (layers.clone(), false),
            approved: (layers, in_force.clone()),
            approve: None,
            in_force,
            is_unreadable: false,
            is_away: false,
            started_with: settings.clone(),
            settings,
            status: ChangeStatus::default(),
        }
    }

    /// Reports a change that waits here.
    pub(super) fn reporting(self, status: ChangeStatus) -> Self {
        Self { status, ..self }
    }

    /// Keeps what the command line says instead of `agent.approve`.
    pub(super) fn approving(self, approve: Option<Approve>) -> Self {
        Self { approve, ..self }
    }

    /// The files, if they are different or it was asked for them.
    fn look(&mut self, is_asked_for: bool) -> Option<Change> {
        let layers = match self.read() {
            Ok(layers) => layers,
            Err(error) => {
                if is_asked_for || !self.is_unreadable {
                    tracing::warn!(%error, "the configuration could not be read again: the old one stays in force");
                }
                self.is_unreadable = true;
                // The user takes back trust without a word in the files.
                let is_revocation = self.has_lost_trust() && self.in_force.has_project_upstreams();
                let layers = self.seen.0.clone();
                return is_revocation.then_some(Change { layers, pending: None, is_revocation });
            }
        };
        self.is_unreadable = false;
        let is_as_approved = layers.own == self.approved.0.own;
        let pending = self.pending(&layers).filter(|_| !(is_as_approved && self.is_revoked(&layers)));
        let is_seen = (&layers, pending.is_some()) == (&self.seen.0, self.seen.1);
        (is_asked_for || !is_seen).then_some(Change { layers, pending, is_revocation: false })
    }

    /// The configuration, if there is one to follow.
    fn load(&mut self, Change { layers, pending, is_revocation }: Change) -> Option<Config> {
        if is_revocation {
            tracing::warn!("the project file is not trusted any more: its upstreams are removed");
            self.in_force.remove_project_upstreams();
            return Some(self.in_force.clone());
        }
        let config = match &pending {
            None => self.sources.lookup(|lookup| layers.load(Reading::Whole(lookup))),
            Some(_) => self.load_narrowing(&layers),
        };
        let waiting = pending.as_ref().map(Pending::waiting);
        // A file with mistakes must be corrected first. No command applies it.
        self.status.set(waiting.clone().filter(|_| config.is_ok()));
        let has_waited = std::mem::replace(&mut self.seen, (layers, pending.is_some())).1;
        let config = match config {
            Ok(Loaded { mut config, .. }) => {
                config.agent.approve = self.approve.unwrap_or(config.agent.approve);
                config
            }
            Err(error) => {
                tracing::error!("the old configuration stays in force: {error}");
                return None;
            }
        };
        let layers = &self.seen.0;
        match waiting {
            None => {
                for (name, why) in config.upstreams.unavailable() {
                    tracing::warn!("upstream {name} is not available: {why}");
                }
                self.approved = (layers.clone(), config.clone());
                self.in_force = config;
                if has_waited {
                    // At the level of the message that a change waits.
                    tracing::warn!("the configuration is applied: no change waits for trust any more");
                }
                self.mind_the_rest();
            }
            Some(waiting) => {
                let (file, remedy) = (&waiting.file, waiting.remedy());
                tracing::warn!(
                    "{file} has changed and could have been written by a tool of this process: what narrows applies now, \
                     the rest after {remedy}"
                );
                for name in self.in_force.changed_tokens(&config) {
                    tracing::warn!(
                        "the token of `{name}` changed: the old one is refused now; the new one is accepted after {remedy}"
                    );
                }
                let (was_locked, was_open) = (self.in_force.is_locked(), self.in_force.closes_for(&config));
                self.in_force = self.in_force.narrowed_by(&config);
                if was_open {
                    tracing::warn!(
                        "{file} adds a first token: the endpoint, which was open, accepts no client until {remedy}"
                    );
                } else if self.in_force.is_locked() && !was_locked {
                    tracing::warn!("{file} contains none of the previous tokens: no client is accepted until {remedy}");
                }
                if self.in_force.policy.is_closed() {
                    tracing::error!("too many changes wait for trust: everything is denied until {remedy}");
                }
            }
        }
        Some(self.in_force.clone())
    }

    /// Reads the files again. A file that is gone may be on its way to be replaced: the old one stays in force. A project file
    /// that stays away is taken for an empty one.
    fn read(&mut self) -> Result<Layers, ConfigError> {
        let mut layers = Layers::find(self.named.as_deref(), &self.trust)?;
        let gone = |file: &File| {
            let message = format!("{} is gone", file.path.display());
            ConfigError::Unreadable(std::io::Error::new(std::io::ErrorKind::NotFound, message))
        };
        let (before, _) = &self.approved;
        if let (Some(own), None) = (&before.own, &layers.own) {
            return Err(gone(own));
        }
        let was_away = std::mem::replace(&mut self.is_away, before.project.is_some() && layers.project.is_none());
        if let (Some(project), true) = (&before.project, self.is_away) {
            if !was_away {
                return Err(gone(&project.file));
            }
            let file = File { text: String::new(), ..project.file.clone() };
            layers.project = Some(Project { file, standing: Standing::Unknown });
        }
        Ok(layers)
    }

    /// The settings to narrow with while a change waits for trust.
    ///
    /// A project file counts only if it was in force: a file that the user never trusted does nothing, whatever it says. If
    /// the project file has mistakes, its approved content counts, so that they do not stop the user's own file.
    fn load_narrowing(&self, layers: &Layers) -> Result<Loaded, ConfigError> {
        let approved = self.approved.0.trusted_project().map(|(file, _)| file);
        let mut layers = layers.clone();
        let is_counted = approved.is_some() && !self.is_revoked(&layers);
        if let Some(project) = layers.project.as_mut().filter(|_| is_counted) {
            project.standing = Standing::Trusted(Grants::default());
        }
        // Relative paths are resolved, because those in force are: the same `jwks_file` must stay the same.
        let narrowing = layers.load(Reading::Resolved);
        let (Err(error), Some(project), Some(approved)) = (&narrowing, &mut layers.project, approved) else {
            return narrowing;
        };
        if !matches!(error, ConfigError::Invalid { path, .. } if *path == project.file.path) {
            return narrowing;
        }
        tracing::error!("the project file stays as it was trusted: {error}");
        project.file = approved.clone();
        layers.load(Reading::Resolved)
    }

    /// Whether the user took back the trust in a project file that is as it was. Then nothing of it is used any more.
    fn is_revoked(&self, layers: &Layers) -> bool {
        let (before, _) = &self.approved;
        let (Some(project), Some(now)) = (&before.project, &layers.project) else { return false };
        before.trusted_project().is_some() && project.file == now.file && layers.trusted_project().is_none()
    }

    /// Whether the records of trust no longer contain the project file that is in force.
    fn has_lost_trust(&self) -> bool {
        let project = self.approved.0.trusted_project();
        project.is_some_and(|(file, _)| !self.trust.trusts(&file.path, &file.text))
    }

    /// The file that changed, may have been changed by a peer, and is not trusted as it is now.
    fn pending(&self, layers: &Layers) -> Option<Pending> {
        let (before, approved) = &self.approved;
        let own = layers.own.as_ref().filter(|own| before.own.as_ref() != Some(own));
        // A tool that could have written the records of trust could have trusted its own change: then only a restart helps.
        let is_forgeable = self.trust.folder().is_some_and(|folder| folder.exists() && approved.names(folder));
        let trusts = |file: &File| !is_forgeable && self.trust.trusts(&file.path, &file.text);
        let own = own.filter(|own| approved.exposes(&own.path) && !trusts(own));
        let is_used = before.trusted_project().is_some() || layers.trusted_project().is_some();
        let is_as_before = |project: &&Project| before.project.as_ref() == Some(*project);
        let project =
            layers.project.as_ref().filter(|project| is_used && !is_as_before(project) && !trusts(&project.file));
        let path = own.or_else(|| project.map(|project| &project.file)).map(|file| &file.path)?;
        let file = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        Some(Pending { file, is_forgeable })
    }

    /// Says what is different and cannot follow, once. A setting that has its old value again does not count.
    fn mind_the_rest(&mut self) {
        let settings = lasting(self.seen.0.own.as_ref());
        let is_in_force = |section: &&str| self.started_with.get(*section) == settings.get(*section);
        for section in different(&self.settings, &settings).into_iter().filter(|section| !is_in_force(section)) {
            tracing::warn!("[{section}] is different now: that holds from the next start on");
        }
        self.settings = settings;
    }
}

/// The settings of the file of the operator or the user, without the keys that follow it. A project file has none that need
/// a restart.
fn lasting(own: Option<&File>) -> toml::Table {
    let mut settings: toml::Table = own.and_then(|file| file.text.parse().ok()).unwrap_or_default();
    for (section, key) in FOLLOWING_KEYS {
        if let Some(toml::Value::Table(section)) = settings.get_mut(section) {
            section.remove(key);
        }
    }
    // An empty section says nothing.
    settings.retain(|_, section| section.as_table().is_none_or(|section| !section.is_empty()));
    settings
}

/// The sections that are different and do not follow.
fn different<'s>(before: &'s toml::Table, after: &'s toml::Table) -> Vec<&'s str> {
    let changed = before.keys().filter(|key| before.get(*key) != after.get(*key));
    let added = after.keys().filter(|key| !before.contains_key(*key));
    changed.chain(added).map(String::as_str).filter(|section| !FOLLOWING.contains(section)).collect()
}

/// What SIGHUP means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HangUp {
    /// The end, which is not ours to bring about.
    Stop,
    /// That the file is to be read now.
    Reload,
}

/// Hears SIGHUP, where there is such a thing and it is for us.
struct Hangups {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangups {
    fn listen(hang_up: HangUp) -> Self {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let signal = (hang_up == HangUp::Reload).then(|| signal(SignalKind::hangup()).ok()).flatten();
            Self { signal }
        }
        #[cfg(not(unix))]
        {
            let _ = hang_up;
            Self {}
        }
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_sections_that_need_a_restart_are_reported() {
        let lasting = |text: &str| lasting(Some(&File { path: PathBuf::new(), text: text.to_owned() }));
        let before = lasting("[http]\nsessions = 1\n[mcp]\n[upstreams.a]\ncommand = 'a'\n[a2e]\ntokens = ['a']\n");
        let after = "[http]\nsessions = 2\n[mcp]\n[toolbox]\nenabled = false\n[authorization]\nscopes = ['x']\n";
        assert_eq!(different(&before, &lasting(after)), ["http"]);
        assert_eq!(different(&before, &lasting(&format!("{after}[a2e]\nsessions = 5\n"))), ["http", "a2e"]);
    }

    const OWN: &str = "[upstreams.u]\ncommand = 'u'\n[[authorization.tokens]]\nname = 'bob'\ntoken = 'b'\n";
    const PROJECT: &str = "[upstreams.p]\ncommand = 'p'\n";

    fn layers(own: &str, project: &str, standing: Standing) -> Layers {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.to_owned() };
        let project = Some(Project { file: file("gladhand.toml", project), standing });
        Layers { own: Some(file("/own.toml", own)), project, is_named: false }
    }

    /// The settings after a change that waits for trust.
    fn after_pending(approved: Layers, change: Layers) -> Option<Config> {
        let config = approved.load(Reading::AsWritten).unwrap().config;
        let pending = Some(Pending { file: "/own.toml".into(), is_forgeable: false });
        Reader::new(None, None, approved, config).load(Change { layers: change, pending, is_revocation: false })
    }

    fn names(config: &Config) -> Vec<&str> {
        config.upstreams.0.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn a_project_file_that_was_never_trusted_changes_nothing_while_a_change_waits() {
        let with_ann = format!("{OWN}[[authorization.tokens]]\nname = 'ann'\ntoken = 'a'\n");
        for project in ["[limits]\nin_flight = 0\n", "[[policy.rules]]\ntools = ['*']\neffect = 'deny'\n", "no TOML"] {
            let of = |own: &str| layers(own, project, Standing::Unknown);
            let config = after_pending(of(&with_ann), of(OWN)).expect("a token is taken back");
            let tokens: Vec<_> = config.authorization.tokens.iter().map(|token| token.name.as_str()).collect();
            assert_eq!((tokens, config.policy.narrowing.len()), (vec!["bob"], 0), "{project}");
        }
    }

    #[test]
    fn a_project_with_revoked_trust_loses_its_upstreams_during_a_pending_change() {
        let trusted = || Standing::Trusted(Grants::default());
        let approved = layers(OWN, PROJECT, trusted());
        let commented = format!("{OWN}# more\n");
        let config = after_pending(approved.clone(), layers(&commented, PROJECT, Standing::Unknown)).unwrap();
        assert_eq!(names(&config), ["u"]);
        let config = after_pending(approved.clone(), layers(&commented, PROJECT, trusted())).unwrap();
        assert_eq!(names(&config), ["u", "p"]);
        let before = PROJECT.to_owned();
        let broken = layers(&commented, "[limits]\nin_flight = 0\n", Standing::Changed { before });
        let config = after_pending(approved, broken).expect("its mistakes do not stop the user's own file");
        assert_eq!(names(&config), ["u", "p"]);
    }

    #[test]
    fn trust_is_taken_back_even_if_the_users_own_file_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let (trust, path) = (TrustStore::in_folder(Some(folder.path())), folder.path().join("gladhand.toml"));
        std::fs::write(&path, PROJECT).unwrap();
        trust.trust(&path, PROJECT, Grants::default()).unwrap();
        let file = File { path: path.clone(), text: PROJECT.to_owned() };
        let project = Some(Project { file, standing: Standing::Trusted(Grants::default()) });
        let approved = Layers { project, ..layers(OWN, "", Standing::Unknown) };
        let config = approved.load(Reading::AsWritten).unwrap().config;
        assert_eq!(names(&config), ["u", "p"]);
        // A folder is at the place of the user's own file.
        let named = Some(folder.path().to_owned());
        let mut reader = Reader::new(named, Some(folder.path()), approved, config);
        assert!(reader.look(false).is_none(), "it is trusted, and nothing else can be read");
        trust.revoke(&path).unwrap();
        let change = reader.look(false).expect("trust was taken back");
        assert_eq!(names(&reader.load(change).unwrap()), ["u"]);
        assert!(reader.look(false).is_none(), "once");
    }

    #[test]
    fn an_upstream_of_the_project_does_not_keep_one_of_the_user_that_was_removed() {
        let project = "[upstreams.u]\ncommand = 'other'\n";
        let trusted = || Standing::Trusted(Grants::default());
        let without = OWN.replace("[upstreams.u]\ncommand = 'u'\n", "");
        let config = after_pending(layers(OWN, project, trusted()), layers(&without, project, trusted())).unwrap();
        assert_eq!(names(&config), [""; 0]);
    }

    #[test]
    fn a_file_is_read_when_it_is_different_and_complained_of_once_when_it_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("g.toml");
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        write("");
        let own = Some(File { path: path.clone(), text: String::new() });
        let layers = Layers { own, project: None, is_named: true };
        let mut reader = Reader::new(Some(path.clone()), None, layers, Config::default());
        let read = |reader: &mut Reader, is_asked_for| {
            let change = reader.look(is_asked_for)?;
            reader.load(change)
        };
        assert!(reader.look(false).is_none(), "nothing is different");
        assert!(read(&mut reader, true).is_some(), "but it was asked for");
        write("[upstreams.a]\nurl = 'https://a.example/mcp'\n");
        assert_eq!(read(&mut reader, false).unwrap().upstreams.0.len(), 1);
        write("[upstreams.a\n");
        assert!(read(&mut reader, false).is_none() && reader.look(false).is_none());
        std::fs::remove_file(&path).unwrap();
        assert!(reader.look(false).is_none() && reader.is_unreadable);
        write("[upstreams.bc]\ncommand = 'a'\n");
        assert_eq!(read(&mut reader, false).unwrap().upstreams.0[0].0, "bc");
    }
}
