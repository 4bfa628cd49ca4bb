//! An HTTP server whose handlers may hang up: close the connection with no answer.

use std::net::TcpListener;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, JoinSet};

/// A response that closes the connection instead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HangUp;

impl IntoResponse for HangUp {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        response.extensions_mut().insert(self);
        response
    }
}

/// Serves until the task is aborted; the connections end with it.
pub(crate) fn serve(listener: TcpListener, router: Router) -> Result<JoinHandle<()>> {
    let listener = tokio::net::TcpListener::from_std(listener)
        .context("the local cloud cannot start: cannot listen on one of its ports")?;
    Ok(tokio::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            if let Ok((stream, _)) = listener.accept().await {
                connections.spawn(handle_connection(stream, router.clone()));
            }
            while connections.try_join_next().is_some() {}
        }
    }))
}

async fn handle_connection(stream: TcpStream, router: Router) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(|request: Request<Incoming>| {
        let answer = router.call(request);
        async { unless_hung_up(answer.await?) }
    });
    // An error means that a side closed the connection, which is nothing to report.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// The response, unless it is a hang-up: an error of the service makes hyper close the connection with no answer.
fn unless_hung_up(response: Response<Body>) -> anyhow::Result<Response<Body>> {
    let hung_up = response.extensions().get::<HangUp>().is_some();
    anyhow::ensure!(!hung_up, "the stub closes the connection");
    Ok(response)
}
