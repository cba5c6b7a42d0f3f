//! The Unix socket: its name, its file with mode and group, the removal of one that a dead process left, and of ours at the end.

use super::{ListenError, backlog};
use settings::{General, UnixSocketDir};
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The file of our socket; removed when this is dropped, unless somebody has put another in its place.
pub struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<SocketFile> {
        Ok(SocketFile {
            path: path.to_owned(),
            identity: identity(path)?,
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

/// Opens the socket `.s.PGSQL.<port>`. The path in the answer starts with `@` in the abstract namespace, which has no file.
pub fn open(
    dir: &UnixSocketDir,
    general: &General,
) -> Result<(mio::net::UnixListener, PathBuf, Option<SocketFile>), ListenError> {
    let name = format!(".s.PGSQL.{}", general.listen_port);
    let (path, file) = match dir {
        UnixSocketDir::Path(dir) => (dir.join(name), true),
        UnixSocketDir::Abstract(prefix) => (PathBuf::from(format!("@{prefix}/{name}")), false),
    };
    let failed = |source| ListenError::Unix {
        path: path.display().to_string(),
        source,
    };
    if file {
        remove_stale(&path)?;
    }
    let socket = listening_socket(&path, general).map_err(failed)?;
    let file = if file {
        Some(SocketFile::of(&path).map_err(failed)?)
    } else {
        None
    };
    if file.is_some() {
        give_access(&path, general)?;
    }
    tracing::info!("listening on unix:{}", path.display());
    Ok((mio::net::UnixListener::from_std(socket.into()), path, file))
}

fn listening_socket(path: &Path, general: &General) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address(path)?)?;
    socket.listen(backlog(general))?;
    Ok(socket)
}

/// The kernel marks the abstract namespace by a NUL (unix(7)).
fn address(path: &Path) -> io::Result<SockAddr> {
    match path.to_str().and_then(|text| text.strip_prefix('@')) {
        Some(name) => SockAddr::unix(format!("\0{name}")),
        None => SockAddr::unix(path),
    }
}

/// Removes a socket that nobody listens on. Anything else that has its name is left alone: binding then fails.
fn remove_stale(path: &Path) -> Result<(), ListenError> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if !is_socket {
        return Ok(());
    }
    let knock = || Socket::new(Domain::UNIX, Type::STREAM, None)?.connect(&SockAddr::unix(path)?);
    match knock() {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)
            .map_err(|source| ListenError::Unix {
                path: path.display().to_string(),
                source,
            }),
        // Reached, or not allowed to find out: then it is not ours to remove.
        _ => Err(ListenError::InUse {
            path: path.display().to_string(),
        }),
    }
}

fn give_access(path: &Path, general: &General) -> Result<(), ListenError> {
    let failed = |source| ListenError::Unix {
        path: path.display().to_string(),
        source,
    };
    if let Some(name) = &general.unix_socket_group {
        let group = nix::unistd::Group::from_name(name).map_err(|error| failed(error.into()))?;
        let group = group.ok_or_else(|| ListenError::Group(name.clone()))?;
        std::os::unix::fs::chown(path, None, Some(group.gid.as_raw())).map_err(failed)?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(general.unix_socket_mode.0))
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn general(port: u16) -> General {
        General {
            listen_port: port,
            ..General::default()
        }
    }

    fn dir(folder: &tempfile::TempDir) -> UnixSocketDir {
        UnixSocketDir::Path(folder.path().to_owned())
    }

    #[test]
    fn the_socket_has_its_name_and_mode_and_goes_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let general = General {
            unix_socket_mode: settings::FileMode(0o700),
            ..general(6432)
        };
        let (_listener, path, file) = open(&dir(&folder), &general).unwrap();
        assert_eq!(path, folder.path().join(".s.PGSQL.6432"));
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o700
        );
        UnixStream::connect(&path).unwrap();
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_dead_process_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".s.PGSQL.1");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let opened = open(&dir(&folder), &general(1)).unwrap();
        UnixStream::connect(&path).unwrap();
        drop(opened);
    }

    #[test]
    fn a_live_process_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let living = UnixListener::bind(folder.path().join(".s.PGSQL.1")).unwrap();
        assert!(matches!(
            open(&dir(&folder), &general(1)),
            Err(ListenError::InUse { .. })
        ));
        drop(living);
    }

    #[test]
    fn what_is_no_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".s.PGSQL.1");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(
            open(&dir(&folder), &general(1)),
            Err(ListenError::Unix { .. })
        ));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn another_ones_socket_is_not_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let (_listener, path, file) = open(&dir(&folder), &general(1)).unwrap();
        fs::rename(&path, folder.path().join("moved")).unwrap();
        let successor = UnixListener::bind(&path).unwrap();
        drop(file);
        assert!(path.exists());
        drop(successor);
    }

    #[test]
    fn a_group_that_does_not_exist_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let general = General {
            unix_socket_group: Some("no such group".to_owned()),
            ..general(1)
        };
        assert!(matches!(
            open(&dir(&folder), &general),
            Err(ListenError::Group(_))
        ));
        assert!(!folder.path().join(".s.PGSQL.1").exists());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_abstract_namespace_has_no_file() {
        use std::os::linux::net::SocketAddrExt;
        let prefix = format!("weir-test-{}", std::process::id());
        let (_listener, path, file) =
            open(&UnixSocketDir::Abstract(prefix.clone()), &general(1)).unwrap();
        assert_eq!(path, PathBuf::from(format!("@{prefix}/.s.PGSQL.1")));
        assert!(file.is_none());
        let address =
            std::os::unix::net::SocketAddr::from_abstract_name(format!("{prefix}/.s.PGSQL.1"))
                .unwrap();
        UnixStream::connect_addr(&address).unwrap();
    }
}
