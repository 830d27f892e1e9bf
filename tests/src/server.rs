//! An HTTP server in this process, on a free port.

use axum::Router;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

#[derive(Debug)]
pub(crate) struct Server {
    /// `HOST:PORT`.
    pub(crate) address: String,
    /// Dropping it ends the server.
    _runtime: Runtime,
}

impl Server {
    pub(crate) fn start(router: Router) -> Self {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self {
            address,
            _runtime: runtime,
        }
    }
}
