//! An upstream's section as the options of a session with it.

use std::sync::Arc;
use std::time::Duration;

use gladhand_auth::Roots;
use gladhand_client::upstream::{Authorizer, Bearer, Eras, Options, Target};
use gladhand_core::Secret;
use gladhand_process::surroundings::Surroundings;
use url::Url;

use crate::config::{self, Origin, UpstreamConfig, env};

/// The target of an upstream and the options to open it. A valid configuration has both. `around` are the configuration
/// files in force, which a nested Gladhand must know. `sign_in` gives access to a server with stored tokens.
pub(crate) fn upstream(
    name: &str,
    config: &UpstreamConfig,
    eras: Eras,
    around: Option<String>,
    sign_in: impl FnOnce(&Url, &Roots) -> Option<Arc<dyn Authorizer>>,
) -> Option<(Target, Options)> {
    let target = target(config)?;
    // Errors in the file were reported when the configuration was read.
    let roots = Roots::read(config.ca.as_deref()).unwrap_or_default();
    let is_of_project = config.origin == Origin::Project;
    let authorizer: Option<Arc<dyn Authorizer>> = match (&config.bearer, &target) {
        (Some(bearer), _) if is_of_project => Some(Arc::new(Bearer::of_project(bearer.0.clone()))),
        (Some(bearer), _) => Some(Arc::new(Bearer::new(bearer.0.clone()))),
        (None, Target::Url(url)) if config.auth.is_some() => sign_in(url, &roots),
        _ => None,
    };
    let mut surroundings = surroundings(config);
    surroundings.variables.extend(around.map(|files| (env::WITHIN.to_owned(), Secret::new(files))));
    let timeout = |ms: u64| (ms > 0).then(|| Duration::from_millis(ms));
    let options = Options {
        name: Some(name.to_owned()),
        speak: config.speak()?,
        opening_timeout: Duration::from_millis(config.timeout_ms),
        call_timeout: timeout(config.call_timeout_ms),
        headers: config.headers().ok()?,
        authorizer,
        roots,
        token: config.token.as_ref().map(|token| token.0.clone()),
        agent_id: config.agent_id.clone(),
        hidden: env::never_passed_on(),
        surroundings,
        masked: !is_of_project,
        eras,
        ..Options::default()
    };
    Some((target, options))
}

/// The target of an upstream. A valid configuration has one.
pub(crate) fn target(upstream: &UpstreamConfig) -> Option<Target> {
    match &upstream.url {
        Some(url) => Url::parse(url).ok().map(Target::Url),
        None if upstream.command.is_empty() => None,
        None => Some(Target::Command(upstream.command.iter().chain(&upstream.args).cloned().collect())),
    }
}

/// The folder and variables of an upstream's program.
fn surroundings(upstream: &UpstreamConfig) -> Surroundings {
    let config::ProgramEnvironment { folder, inherits, variables } = upstream.program_environment();
    Surroundings { folder, inherits, variables, permit: None }
}
