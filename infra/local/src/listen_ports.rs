//! The ports of a local cloud, on the loopback interface.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Context, Result};

/// The ports that a local cloud listens on. Zero takes any free port.
#[derive(Clone, Copy, Debug)]
pub struct ListenPorts {
    /// The port of the API that senders post to.
    pub gateway: u16,
    /// The port of the partner stub.
    pub partners: u16,
    /// The port of the AWS emulator.
    pub emulator: u16,
}

impl ListenPorts {
    /// Any free ports: for tests, which must not meet a `make run` on the same machine.
    pub const FREE: Self = Self { gateway: 0, partners: 0, emulator: 0 };
}

impl Default for ListenPorts {
    fn default() -> Self {
        Self { gateway: 8787, partners: 8788, emulator: 4566 }
    }
}

/// Listens on loopback only. `part` and `flag` are for the error when the port is in use.
pub fn listen(port: u16, part: &str, flag: &str) -> Result<TcpListener> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind(address).with_context(|| {
        format!(
            "the local cloud cannot start: port {port}, for the {part}, is not free. Another `make run` may use it \
             (`make stop` stops it), or another program. Stop that one, or choose another port: \
             `make run ARGS='{flag} {}'`",
            port.saturating_add(1000)
        )
    })?;
    listener.set_nonblocking(true).context("the local cloud cannot start: cannot make its port non-blocking")?;
    Ok(listener)
}

/// The number of the port that a listener got.
pub fn port_of(listener: &TcpListener) -> Result<u16> {
    Ok(listener.local_addr().context("the local cloud cannot start: cannot read the number of its port")?.port())
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
