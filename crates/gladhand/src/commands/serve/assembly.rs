//! Everything behind the hub, put together from a configuration: the toolbox, the repository tools, the
//! upstreams, the agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gladhand_hub::Hub;

use super::mounted::{ListWaits, Memory, Mounted};
use super::recursion::Within;
use crate::agent::LaterAgent;
use crate::config::{self, Config, Layers, OwnFiles};
use crate::providers::capabilities::Parts;
use crate::providers::{AgentTools, RepositoryTools};
use gladhand_session::tap::Tap;

/// A hub and what is behind it. Nothing is started yet.
#[derive(Debug)]
pub(in crate::commands) struct Assembly {
    /// In front of everything.
    pub(in crate::commands) hub: Hub,
    /// The agent, if there is one.
    pub(super) agent: Option<Arc<LaterAgent>>,
    /// The tap of this process: that of its upstreams, and of the service in front of them.
    pub(super) tap: Arc<Tap>,
    /// The providers that are mounted in it.
    pub(super) mounted: Mounted,
    /// Whether a Gladhand with the same configuration started this process.
    pub(super) is_circle: bool,
}

/// Who can reach what is put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Reached {
    /// Only the process that started this one.
    Here,
    /// Others with a token, who may read only what was configured.
    WithToken,
    /// Others without a token too. They may read only what was configured, and run no model.
    ByAnyone,
}

/// A path that no folder is below.
const NO_FOLDER: &str = "/dev/null";

/// The root of remote clients if no roots are configured. It contains no folder if this process was started in `/`, as
/// services are: otherwise remote clients could read all files.
fn launch_root(launched_in: Option<PathBuf>) -> PathBuf {
    let real = launched_in.and_then(|folder| folder.canonicalize().ok());
    real.filter(|real| real.parent().is_some()).unwrap_or_else(|| {
        tracing::warn!("started in `/`, which is no workspace: set `roots` in [agent]");
        NO_FOLDER.into()
    })
}

impl Assembly {
    /// Puts together what a configuration names. Its upstreams are taken out of it if they would start us again.
    pub(in crate::commands) fn of(
        config: &mut Config,
        layers: &Layers,
        data: Option<&Path>,
        reached: Reached,
        list_waits: ListWaits,
    ) -> Self {
        let within =
            Within::new(std::env::var_os(config::env::WITHIN), layers.in_force().map(|file| file.path.as_path()));
        let is_circle = within.is_circle();
        if is_circle {
            tracing::warn!(
                "recursion detected: a server with the same configuration started this process, so its upstreams are disabled"
            );
            config.upstreams.0.clear();
        }
        if config.repository.roots.is_empty() {
            // The repository tools must not read more than the agent's own tools.
            config.repository.roots.clone_from(&config.agent.roots);
        }
        if reached != Reached::Here && config.agent.roots.is_empty() {
            // Remote clients may read the current folder only, not everything that this user may read.
            config.agent.roots.push(launch_root(std::env::current_dir().ok()));
        }
        // Those of a Gladhand around us too: its tokens are no more for our model than our own.
        let files = data.map(|data| OwnFiles::of(data, config, layers).with(within.around()));
        let agent = files.clone().filter(|_| config.agent.enabled);
        let agent = agent.map(|files| Arc::new(LaterAgent::new(config.agent.clone(), files)));
        let tap = Arc::<Tap>::default();
        let memory = Memory::in_folder(data.map(Path::to_owned));
        let mut mounted = Mounted::new(config, memory, within, Arc::clone(&tap), list_waits);
        if let Some(files) = files.filter(|_| config.repository.enabled != Some(false)) {
            let is_networked = reached != Reached::Here;
            mounted.add_repository(RepositoryTools::new(&config.repository, files, is_networked));
        }
        match agent.as_ref().filter(|_| config.agent.tools) {
            Some(_) if reached == Reached::ByAnyone => tracing::warn!(
                "the agent is not offered as tools, because no token is needed to call them (set [authorization])"
            ),
            Some(agent) => mounted.add_agent(AgentTools::new(Arc::clone(agent) as _)),
            None => {}
        }
        let agent_of_parts = agent.as_ref().map(|agent| Arc::clone(agent) as _);
        let parts = Parts { config: &config.a2e, data, agent: agent_of_parts, tap: &tap };
        mounted.add_capabilities(parts.assemble());
        let mut hub = Hub::of(mounted.mounts());
        hub.require(mounted.required());
        if let Some(agent) = agent.clone() {
            agent.with_hub(hub.clone());
            hub = hub.with_agent(agent);
        }
        Self { hub, agent, tap, mounted, is_circle }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use gladhand_core::operations::{Tool, ToolResult};
    use gladhand_core::sync::Unpoisoned as _;
    use gladhand_dialects::Stop;
    use gladhand_hub::Kit;
    use gladhand_server::Service;
    use gladhand_server::http::Http;
    use gladhand_session::tap::{
        Attached, Direction, SessionOpened, TapListener, TappedFrame, TappedPeer, TappedSession,
    };
    use serde_json::json;
    use tokio::sync::oneshot;

    use super::*;
    use crate::commands::shared::references;
    use crate::config::Reading;

    /// The frames of each session, and its beginning and end.
    #[derive(Default)]
    struct Recorder {
        frames: Mutex<Vec<(TappedSession, Direction, String)>>,
        opened: Mutex<Vec<SessionOpened>>,
        closed: Mutex<Vec<TappedSession>>,
    }

    impl TapListener for Recorder {
        fn frame(&self, frame: &TappedFrame<'_>) {
            let text = String::from_utf8_lossy(frame.bytes).into_owned();
            self.frames.lock().unpoisoned().push((frame.session, frame.direction, text));
        }

        fn opened(&self, opened: &SessionOpened) {
            self.opened.lock().unpoisoned().push(opened.clone());
        }

        fn closed(&self, session: TappedSession) {
            self.closed.lock().unpoisoned().push(session);
        }
    }

    impl Recorder {
        fn attached(tap: &Arc<Tap>) -> (Arc<Self>, Attached) {
            let recorder = Arc::<Self>::default();
            let attached = tap.attach(Arc::clone(&recorder) as Arc<dyn TapListener>);
            (recorder, attached)
        }

        /// The frames of one session in one direction.
        fn of(&self, session: TappedSession, direction: Direction) -> Vec<String> {
            let frames = self.frames.lock().unpoisoned();
            let those = frames.iter().filter(|(of, way, _)| (*of, *way) == (session, direction));
            those.map(|(_, _, text)| text.clone()).collect()
        }

        /// The session with the upstream of this name, its process and its URL.
        fn upstream(&self, name: &str) -> Option<(TappedSession, Option<u32>, Option<String>)> {
            self.opened.lock().unpoisoned().iter().find_map(|opened| match &opened.peer {
                TappedPeer::Server { upstream: Some(of), process, url, .. } if of == name => {
                    Some((opened.session, *process, url.clone()))
                }
                _ => None,
            })
        }
    }

    /// A server over HTTP, until the sender is dropped.
    async fn serve(service: Service) -> (String, oneshot::Sender<Stop>) {
        let http = Http { listen: vec!["127.0.0.1:0".parse().expect("an address")], ..Http::default() };
        let server = service.bind_http(http).await.expect("a free port");
        let url = server.urls()[0].clone();
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(server.run(async { stopped.await.unwrap_or(Stop::Terminated) }));
        (url, stop)
    }

    /// A server on stdin and stdout with the tool `echo`, which keeps what it reads and writes in two files.
    fn script(to: &Path, from: &Path) -> String {
        format!(
            r#"tee '{}' | while read -r line; do
                id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
                case "$line" in
                *'"initialize"'*) echo '{{"jsonrpc":"2.0","id":'$id',"result":{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}}}';;
                *'"tools/list"'*) echo '{{"jsonrpc":"2.0","id":'$id',"result":{{"tools":[{{"name":"echo","inputSchema":{{"type":"object"}}}}]}}}}';;
                *'"tools/call"'*) echo '{{"jsonrpc":"2.0","id":'$id',"result":{{"content":[]}}}}';;
                esac
            done | tee '{}'"#,
            to.display(),
            from.display()
        )
    }

    async fn post(url: &str, session: Option<&str>, body: &str) -> (String, Option<String>) {
        let client = gladhand_tls::client_builder().no_proxy().build().expect("a client");
        let mut request = client.post(url).body(body.to_owned()).header("content-type", "application/json");
        request = request.header("accept", "application/json, text/event-stream");
        if let Some(session) = session {
            request = request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-06-18");
        }
        let response = request.send().await.expect("the server answers");
        let id = response.headers().get("mcp-session-id").map(|id| id.to_str().expect("an id is text").to_owned());
        let text = response.text().await.expect("the answer is text");
        let events: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        (if events.is_empty() { text } else { events.concat() }, id)
    }

    fn call(id: u64, tool: &str) -> String {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}})
            .to_string()
    }

    fn config(text: &str) -> Config {
        references::Sources::default()
            .lookup(|lookup| config::parse(text, Reading::Whole(lookup)))
            .expect("a valid configuration")
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn one_tap_sees_the_frames_of_clients_and_of_all_upstreams_once() {
        let folder = tempfile::tempdir().unwrap();
        let (to, from) = (folder.path().join("to"), folder.path().join("from"));
        let far_tap = Arc::<Tap>::default();
        let (far, _far) = Recorder::attached(&far_tap);
        let kit = Kit::new().tool(Tool::plain("echo", "Says it again."), |_, _| Ok(ToolResult::text("echo")));
        let (far_url, _far_stop) = serve(Service::new(kit.into_hub().unwrap()).tapped(far_tap)).await;

        // The upstream over HTTP comes with a reload.
        let process = format!(
            "[toolbox]\nenabled = false\n[repository]\nenabled = false\n[agent]\nenabled = false\n[upstreams.process]\n\
             command = 'sh'\nargs = ['-c', {}]\nspeak = 'mcp@2025-06-18'\n",
            json!(script(&to, &from))
        );
        let remote = format!("[upstreams.remote]\nurl = '{far_url}'\nspeak = 'mcp@2025-06-18'\n");
        let mut before = config(&process);
        let (layers, waits) = (Layers::default(), ListWaits::default());
        let Assembly { hub, tap, mut mounted, .. } = Assembly::of(&mut before, &layers, None, Reached::Here, waits);
        let (recorder, attached) = Recorder::attached(&tap);
        mounted.update(&config(&format!("{process}{remote}")));
        hub.remount(mounted.mounts());
        hub.settled().await;
        let (url, stop) = serve(Service::new(hub.clone()).tapped(Arc::clone(&tap))).await;

        let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "ann", "version": "1"}}});
        let mut sent = vec![initialize.to_string()];
        let (answer, session) = post(&url, None, &sent[0]).await;
        let mut received = vec![answer];
        let notice = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned();
        for message in [notice, call(2, "process__echo"), call(3, "remote__echo")] {
            let (answer, _) = post(&url, session.as_deref(), &message).await;
            sent.push(message);
            received.extend(Some(answer).filter(|answer| !answer.is_empty()));
        }
        assert!(received[1..].iter().all(|answer| answer.contains("content")), "{received:?}");

        let client = recorder.opened.lock().unpoisoned().iter().find_map(|opened| match &opened.peer {
            TappedPeer::Client { name, .. } if name == "ann" => Some(opened.session),
            _ => None,
        });
        let client = client.expect("the client's session is told");
        assert_eq!(recorder.of(client, Direction::Received), sent);
        assert_eq!(recorder.of(client, Direction::Sent), received);

        let (process, number, no_url) = recorder.upstream("process").expect("the process is told");
        assert!(number.is_some() && no_url.is_none());
        let (remote, no_process, remote_url) = recorder.upstream("remote").expect("the URL is told");
        assert_eq!((no_process, remote_url), (None, Some(far_url)));

        // A listener that comes later is told of the sessions that are open.
        let (late, late_attached) = Recorder::attached(&tap);
        assert!(late.upstream("process").is_some() && late.upstream("remote").is_some());
        drop(late_attached);

        drop(stop);
        hub.closed().await;
        let lines = |path| std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(recorder.of(process, Direction::Sent), lines(&to));
        assert_eq!(recorder.of(process, Direction::Received), lines(&from));
        let far_session = far.opened.lock().unpoisoned()[0].session;
        assert_eq!(recorder.of(remote, Direction::Sent), far.of(far_session, Direction::Received));
        assert_eq!(recorder.of(remote, Direction::Received), far.of(far_session, Direction::Sent));
        assert!(!recorder.of(remote, Direction::Received).is_empty());
        // Upstreams are closed; the client's session ends with the server.
        for _ in 0..200 {
            if recorder.closed.lock().unpoisoned().contains(&client) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let closed = recorder.closed.lock().unpoisoned().clone();
        for session in [client, process, remote] {
            assert_eq!(closed.iter().filter(|closed| **closed == session).count(), 1, "{session:?}: {closed:?}");
        }
        drop(attached);
        assert!(!tap.is_on());
    }
}
