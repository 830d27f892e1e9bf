//! The pages for people: the dashboard at `/ui/`, the description of the API at `/docs`, and the
//! document `/openapi.json` that it shows.
//!
//! The files are part of the program and are served as they are, without a token: they contain no
//! data. Their scripts call the operations of the table like any other client.

use std::sync::{Arc, LazyLock};

use axum::http::{HeaderValue, StatusCode};
use seqd_api::{ErrorCode, Need, NoFields, Operation, Problem};
use sha2::{Digest as _, Sha256};

use crate::http::{Request, Response, Route, etag};
use crate::services::Services;

/// The folders of the pages.
pub(super) const FOLDERS: [&str; 2] = ["/ui", "/docs"];

/// Permits nothing but the node's own scripts, styles, icon and API, and no frame around a page. A
/// browser with trusted types refuses every text that a script would insert as HTML.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      connect-src 'self'; img-src 'self'; frame-ancestors 'none'; \
                      base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
const JSON: &str = "application/json";

struct File {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
    /// The entity tag, which changes with the bytes.
    tag: String,
}

impl File {
    fn new(name: &'static str, kind: &'static str, bytes: &'static [u8]) -> File {
        File {
            name,
            kind,
            bytes,
            tag: format!("\"{:x}\"", Sha256::digest(bytes)),
        }
    }

    /// Browsers store the file, and ask before each use whether it has changed.
    fn response(&self, request: &Request) -> Result<Response, Problem> {
        let NoFields {} = request.decode()?;
        let kind = HeaderValue::from_static(self.kind);
        let response = Response::new(StatusCode::OK, kind, self.bytes)
            .with_header("cache-control", "no-cache")
            .with_header("etag", &self.tag)
            .with_header("content-security-policy", POLICY)
            .with_header("x-content-type-options", "nosniff")
            .with_header("referrer-policy", "no-referrer");
        if etag::is_known(&request.headers, &self.tag) {
            return Ok(response.not_modified());
        }
        Ok(response)
    }
}

macro_rules! files {
    ($($kind:ident $name:literal),+ $(,)?) => {
        vec![$(File::new($name, $kind, include_bytes!(concat!("../../pages/", $name)))),+]
    };
}

/// The files of both pages.
static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    files![
        HTML "ui.html", HTML "docs.html", SVG "icon.svg", CSS "style.css",
        JS "actions.js", JS "api.js", JS "chart.js", JS "decode.js", JS "docs.js", JS "dom.js",
        JS "findings.js", JS "format.js", JS "history.js", JS "main.js", JS "metrics.js",
        JS "panels.js", JS "runway.js", JS "store.js",
    ]
});

/// The description of the API, which a test compares with the table of operations.
static OPENAPI: LazyLock<File> = LazyLock::new(|| {
    let bytes = include_bytes!("../../../../docs/openapi.json");
    File::new("openapi.json", JSON, bytes)
});

/// A path that is not part of the API.
const fn page(path: &'static str) -> Operation {
    let mut page = Operation::local(Need::Nothing).media(&[]);
    page.path = path;
    page
}

static UI: Operation = page("/ui/");
static UI_WITHOUT_SLASH: Operation = page("/ui");
static UI_FILE: Operation = page("/ui/{file}");
static DOCS: Operation = page("/docs");
static DOCS_WITH_SLASH: Operation = page("/docs/");

/// The paths of the pages. Both have absolute links, so a slash at the end makes no difference.
pub(super) fn routes() -> Vec<Route<Services>> {
    let ui = [&UI, &UI_WITHOUT_SLASH].map(|row| Route::of(row, |_, r| file("ui.html", r)));
    let docs = [&DOCS, &DOCS_WITH_SLASH].map(|row| Route::of(row, |_, r| file("docs.html", r)));
    let named = Route::of(&UI_FILE, |_, request: Request| {
        let name = request.name().to_owned();
        async move { file(&name, request).await }
    });
    ui.into_iter().chain(docs).chain([named]).collect()
}

async fn file(name: &str, request: Request) -> Result<Response, Problem> {
    let found = FILES.iter().find(|file| file.name == name);
    let missing = || {
        let detail = "the pages have no file with this name";
        Problem::new(ErrorCode::NotFound, detail).with_hint("the dashboard is at /ui/")
    };
    found.ok_or_else(missing)?.response(&request)
}

/// `/openapi.json`
pub(super) async fn openapi(_: Arc<Services>, request: Request) -> Result<Response, Problem> {
    OPENAPI.response(&request)
}
