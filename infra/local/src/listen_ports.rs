//! Ports on the loopback interface, and a clear sentence when one is taken.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Context, Result};

/// Which ports a local cloud listens on. Zero takes any that is free.
#[derive(Clone, Copy, Debug)]
pub struct ListenPorts {
    /// The front door, where partners post.
    pub gateway: u16,
    /// The partner stub.
    pub partners: u16,
    /// The emulator, which answers for AWS.
    pub emulator: u16,
}

impl ListenPorts {
    /// Any that are free: for tests, which must not meet a `make run` on the same machine.
    pub const FREE: Self = Self { gateway: 0, partners: 0, emulator: 0 };
}

impl Default for ListenPorts {
    fn default() -> Self {
        Self { gateway: 8787, partners: 8788, emulator: 4566 }
    }
}

/// Listen on loopback only. `who` and `flag` are for the sentence when the port is taken.
pub fn listen(port: u16, who: &str, flag: &str) -> Result<TcpListener> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind(address).with_context(|| {
        format!(
            "port {port}, for the {who}, cannot be had. Probably another `make run` holds it \
             (`make stop` ends it), or another program does: free it, or choose another port \
             with {flag}, as in `make run ARGS='{flag} {}'`",
            port.saturating_add(1000)
        )
    })?;
    listener.set_nonblocking(true).context("set the listener to non-blocking")?;
    Ok(listener)
}

/// The port that a listener really got.
pub fn port_of(listener: &TcpListener) -> Result<u16> {
    Ok(listener.local_addr().context("read the listener's address")?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_named_with_its_flag() {
        let first = listen(0, "gateway", "--port").expect("a free port");
        let port = port_of(&first).expect("its number");

        let error = listen(port, "gateway", "--port").expect_err("it is taken");

        let sentence = error.to_string();
        assert!(sentence.contains(&port.to_string()), "{sentence}");
        assert!(sentence.contains("--port"), "{sentence}");
    }
}
