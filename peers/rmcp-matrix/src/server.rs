//! The matrix's tools on rmcp: both eras, over stdio and HTTP.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::tool::InputResponses;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, CreateMessageRequest, CreateMessageRequestParams, ElicitRequest,
    ElicitRequestParams, ElicitationSchema, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation,
    InputRequest, InputRequiredResult, ListPromptsResult, ListResourcesResult, PaginatedRequestParams,
    ProgressNotificationParam, Prompt, PromptArgument, PromptMessage, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, Resource, ResourceContents, ResourceUpdatedNotificationParam, Role, SamplingMessage,
    ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::transport::io::stdio as stdin_and_stdout;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt, schemars, tool, tool_handler, tool_router};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::Failure;

const WATCHED: &str = "test://watched";

/// How many calls were cancelled, of all sessions.
static CANCELLED: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone)]
struct Server {
    /// Notifies the listening clients of the stateless era.
    touched: watch::Sender<()>,
    /// Has heard nothing yet. A listener is acknowledged before it is asked to listen, and misses nothing with this.
    unheard: watch::Receiver<()>,
    #[expect(dead_code, reason = "read by what the macro writes")]
    tool_router: ToolRouter<Self>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    message: String,
}

type Context = RequestContext<RoleServer>;

#[tool_router]
impl Server {
    fn new((touched, unheard): (watch::Sender<()>, watch::Receiver<()>)) -> Self {
        Self { touched, unheard, tool_router: Self::tool_router() }
    }

    #[tool(description = "Returns its message.")]
    async fn echo(&self, Parameters(echo): Parameters<Echo>) -> String {
        echo.message
    }

    #[tool(description = "Reports progress in three steps.")]
    async fn count(&self, context: Context) -> Result<String, ErrorData> {
        for step in 1..=3 {
            report(&context, f64::from(step), 3.0).await?;
            // Some clients lose a report that comes together with the reply.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok("counted".to_owned())
    }

    #[tool(description = "Reports once, and then waits to be cancelled.")]
    async fn linger(&self, context: Context) -> Result<String, ErrorData> {
        report(&context, 1.0, 100.0).await?;
        tokio::select! {
            () = context.ct.cancelled() => drop(CANCELLED.fetch_add(1, Ordering::Relaxed)),
            () = tokio::time::sleep(Duration::from_secs(60)) => {}
        }
        Ok("lingered".to_owned())
    }

    #[tool(description = "Says how many calls were cancelled.")]
    async fn lingered(&self) -> String {
        CANCELLED.load(Ordering::Relaxed).to_string()
    }

    #[tool(description = "Rings for whoever watches.")]
    async fn touch(&self, context: Context) -> Result<String, ErrorData> {
        if is_stateless(&context) {
            self.touched.send_replace(());
        } else {
            let update = ResourceUpdatedNotificationParam::new(WATCHED);
            context.peer.notify_resource_updated(update).await.map_err(internal)?;
        }
        Ok("touched".to_owned())
    }

    #[tool(description = "Asks the user for a name.")]
    async fn ask(&self, answers: InputResponses, context: Context) -> Result<CallToolResponse, ErrorData> {
        let schema = ElicitationSchema::builder().required_string("name").build().map_err(internal)?;
        let params = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: "Who are you?".to_owned(),
            requested_schema: schema,
        };
        if !is_stateless(&context) {
            let answer = context.peer.create_elicitation(params).await.map_err(internal)?;
            return Ok(greeting(&answer.content.unwrap_or_default()));
        }
        match answered(answers, "ask") {
            Some(answer) => Ok(greeting(&answer["content"])),
            None => Ok(question("ask", InputRequest::Elicitation(ElicitRequest::new(params)))),
        }
    }

    #[tool(description = "Asks the caller's model.")]
    async fn think(&self, answers: InputResponses, context: Context) -> Result<CallToolResponse, ErrorData> {
        let params = CreateMessageRequestParams::new(vec![SamplingMessage::user_text("Which city?")], 5);
        if !is_stateless(&context) {
            let answer = context.peer.create_message(params).await.map_err(internal)?;
            let answer = serde_json::to_value(answer).map_err(internal)?;
            return Ok(said(answer["content"]["text"].as_str()));
        }
        match answered(answers, "think") {
            Some(answer) => Ok(said(answer["content"]["text"].as_str())),
            None => Ok(question("think", InputRequest::CreateMessage(CreateMessageRequest::new(params)))),
        }
    }
}

#[tool_handler]
impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe();
        ServerConfig::new(capabilities.build()).with_server_info(Implementation::new("rmcp", "3"))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![Resource::new(WATCHED, "watched")]))
    }

    async fn read_resource(&self, _: ReadResourceRequestParams, _: Context) -> Result<ReadResourceResponse, ErrorData> {
        Ok(ReadResourceResult::new(vec![ResourceContents::text("still water", WATCHED)]).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        let arguments = vec![PromptArgument::new("name").with_required(true)];
        Ok(ListPromptsResult::with_all_items(vec![Prompt::new("greeting", None::<String>, Some(arguments))]))
    }

    async fn get_prompt(&self, request: GetPromptRequestParams, _: Context) -> Result<GetPromptResponse, ErrorData> {
        let name = request.arguments.as_ref().and_then(|all| all.get("name")).and_then(|name| name.as_str());
        let words = format!("Greet {}.", name.unwrap_or_default());
        Ok(GetPromptResult::new(vec![PromptMessage::new(Role::User, ContentBlock::text(words))]).into())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut touched = self.unheard.clone();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                Ok(()) = touched.changed() => context.sink().notify_resource_updated(WATCHED).await.map_err(internal)?,
            }
        }
    }
}

fn is_stateless(context: &Context) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

async fn report(context: &Context, progress: f64, total: f64) -> Result<(), ErrorData> {
    let Some(token) = context.meta.get_progress_token() else { return Ok(()) };
    let params = ProgressNotificationParam::new(token, progress).with_total(total);
    context.peer.notify_progress(params).await.map_err(internal)
}

fn answered(InputResponses(answers): InputResponses, name: &str) -> Option<Value> {
    answers?.remove(name)
}

fn question(name: &str, request: InputRequest) -> CallToolResponse {
    let requests = BTreeMap::from([(name.to_owned(), request)]);
    InputRequiredResult::new(Some(requests), None).into()
}

fn greeting(form: &Value) -> CallToolResponse {
    said(Some(&format!("Hello, {}!", form["name"].as_str().unwrap_or_default())))
}

fn said(words: Option<&str>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(words.unwrap_or_default())]).into()
}

fn internal(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

pub(crate) async fn stdio() -> Result<(), Failure> {
    let server = Server::new(watch::channel(())).serve(stdin_and_stdout()).await?;
    server.waiting().await?;
    Ok(())
}

pub(crate) async fn http(port: &str) -> Result<(), Failure> {
    let touched = watch::channel(());
    let sessions = LocalSessionManager::default().into();
    let make = move || Ok(Server::new(touched.clone()));
    let service = StreamableHttpService::new(make, sessions, StreamableHttpServerConfig::default());
    let listener = TcpListener::bind(("127.0.0.1", port.parse::<u16>()?)).await?;
    axum::serve(listener, Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
