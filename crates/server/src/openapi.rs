//! The routes, their OpenAPI description, and the page that shows it.

use std::sync::Arc;

use axum::{
    Router,
    http::{HeaderName, header},
    response::IntoResponse,
    routing::get,
};
use utoipa::{
    OpenApi,
    openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{chat, metrics, runs, server::Shared, sessions, tools};

/// The part of the description that no route has. The paths are relative to the description.
#[derive(OpenApi)]
#[openapi(
    info(title = "haft", description = "Tools, chat, stored conversations and runs."),
    servers((url = ".")),
    tags(
        (name = "tools", description = "The tools of the server"),
        (name = "chat", description = "Questions and answers"),
        (name = "sessions", description = "Stored conversations"),
        (name = "runs", description = "Runs of stored conversations"),
        (name = "operation", description = "The operation of the server"),
    )
)]
struct Description;

/// Returns the routes and their description.
pub(crate) fn routes(requires_token: bool) -> (Router<Arc<Shared>>, utoipa::openapi::OpenApi) {
    let (router, mut description) = OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(tools::list))
        .routes(routes!(tools::names))
        .routes(routes!(tools::show))
        .routes(routes!(tools::call))
        .routes(routes!(tools::stats))
        .routes(routes!(metrics::show))
        .routes(routes!(chat::chat))
        .routes(routes!(sessions::list))
        .routes(routes!(sessions::show, sessions::delete))
        .routes(routes!(sessions::messages))
        .routes(routes!(sessions::fork))
        .routes(routes!(sessions::rewind))
        .routes(routes!(sessions::export))
        .routes(routes!(sessions::search))
        .routes(routes!(runs::start, sessions::runs))
        .routes(routes!(runs::session_events))
        .routes(routes!(runs::show))
        .routes(routes!(runs::events))
        .routes(routes!(runs::decide))
        .routes(routes!(runs::send))
        .routes(routes!(runs::cancel))
        .split_for_parts();
    if requires_token {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = description.components.get_or_insert_default();
        components.add_security_scheme("token", scheme);
        description.security = Some(vec![SecurityRequirement::new("token", [] as [&str; 0])]);
    }
    (router, description)
}

/// The page loads only its own files, and sends requests only to its own server.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                                       base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns the routes of the description and its page.
pub(crate) fn page(description: utoipa::openapi::OpenApi) -> Router {
    let json: Arc<str> = description.to_json().unwrap_or_default().into();
    let file = |content_type: &'static str, text: &'static str| {
        get(async move || {
            let headers = [
                (header::CONTENT_TYPE, content_type),
                (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
                (HeaderName::from_static("x-content-type-options"), "nosniff"),
            ];
            (headers, text).into_response()
        })
    };
    let description = async move || ([(header::CONTENT_TYPE, "application/json")], json.to_string());
    Router::new()
        .route("/openapi.json", get(description))
        .route("/docs", file("text/html; charset=utf-8", include_str!("docs/page.html")))
        .route("/docs/page.js", file("text/javascript; charset=utf-8", include_str!("docs/page.js")))
        .route("/docs/page.css", file("text/css; charset=utf-8", include_str!("docs/page.css")))
}
