//! Writes a changed configuration in the place of the old one: only if it is valid, at once, and with the old one kept beside it.

use super::advice::IniAdvice;
use super::ini;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Says whether a configuration file is valid, and if not, all that is wrong.
pub type Check<'a> = dyn Fn(&Path) -> Result<(), String> + 'a;

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub path: PathBuf,
    /// The file as it was; `None` if nothing had to be changed.
    pub backup: Option<PathBuf>,
    pub changes: Vec<String>,
    pub notes: Vec<String>,
}

/// The file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{path}: {source}")]
    Io {
        path: String,
        source: std::io::Error,
    },
    #[error("{path} is not valid as it is, so nothing was changed:\n{problems}")]
    InvalidBefore { path: String, problems: String },
    #[error("with the advice {path} would not be valid, so nothing was changed:\n{problems}")]
    InvalidAfter { path: String, problems: String },
}

/// Merges the advice into the file at `path`.
///
/// # Errors
/// [`ApplyError`]; then the file is untouched.
pub fn apply(advice: &IniAdvice, path: &Path, check: &Check<'_>) -> Result<Applied, ApplyError> {
    // Through a symbolic link, the file that it names is replaced, and not the link.
    let path = path.canonicalize().map_err(failed(path))?;
    let shown = path.display().to_string();
    check(&path).map_err(|problems| ApplyError::InvalidBefore {
        path: shown.clone(),
        problems,
    })?;
    let text = std::fs::read_to_string(&path).map_err(failed(&path))?;
    let merged = ini::merge(&text, advice);
    let mut applied = Applied {
        backup: None,
        changes: merged.changes,
        notes: merged.notes,
        path,
    };
    if merged.text != text {
        let path = &applied.path;
        let new = written(&merged.text, path).map_err(failed(path))?;
        check(new.path()).map_err(|problems| ApplyError::InvalidAfter {
            problems: problems.replace(&new.path().display().to_string(), &shown),
            path: shown,
        })?;
        let backup = backup(path).map_err(failed(path))?;
        new.persist(path)
            .map_err(|error| failed(path)(error.error))?;
        applied.backup = Some(backup);
    }
    Ok(applied)
}

/// Beside the file, so that what it includes is found and renaming is atomic; with its owner and rights.
fn written(text: &str, path: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut new = tempfile::Builder::new()
        .prefix(".weir-advise-")
        .suffix(".ini")
        .tempfile_in(folder)?;
    new.write_all(text.as_bytes())?;
    let old = std::fs::metadata(path)?;
    own(new.path(), &old)?;
    new.as_file().set_permissions(old.permissions())?;
    new.as_file().sync_all()?;
    Ok(new)
}

/// Only root can, and only for root it may differ from the file's owner.
fn own(path: &Path, old: &std::fs::Metadata) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let new = std::fs::metadata(path)?;
    if (new.uid(), new.gid()) == (old.uid(), old.gid()) {
        return Ok(());
    }
    std::os::unix::fs::chown(path, Some(old.uid()), Some(old.gid()))
}

/// The old file under the first free name of FILE.bak, FILE.bak.1, ...; a hard link, so that it keeps everything.
fn backup(path: &Path) -> std::io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(".bak");
        if number > 0 {
            name.push(format!(".{number}"));
        }
        let backup = PathBuf::from(name);
        match std::fs::hard_link(path, &backup) {
            Err(taken) if taken.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            linked => return linked.map(|()| backup),
        }
    }
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> ApplyError {
    let path = path.display().to_string();
    move |source| ApplyError::Io { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::advice::{Keeps, SettingAdvice};
    use std::os::unix::fs::PermissionsExt;

    fn advice(value: &str) -> IniAdvice {
        IniAdvice {
            databases: Vec::new(),
            settings: vec![SettingAdvice {
                name: "default_pool_size",
                value: value.into(),
                why: "seen".into(),
                keeps: Keeps::Nothing,
            }],
        }
    }

    /// Refuses what has the word "bad".
    fn check(path: &Path) -> Result<(), String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        match text.contains("bad") {
            true => Err(format!("{}: a bad word", path.display())),
            false => Ok(()),
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = folder.read_dir().expect("a folder").flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_old_file_is_kept_and_rights_and_links_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("a.ini"), folder.path().join("link.ini"));
        std::fs::write(&file, "[pgbouncer]\n").expect("writable");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).expect("own file");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        for value in ["5", "6"] {
            let applied = apply(&advice(value), &link, &check).expect("valid");
            assert!(applied.backup.is_some_and(|backup| backup.is_file()));
        }
        let same = apply(&advice("6"), &link, &check).expect("valid");
        assert_eq!((same.backup, same.changes), (None, Vec::new()));
        assert_eq!(
            names(folder.path()),
            ["a.ini", "a.ini.bak", "a.ini.bak.1", "link.ini"]
        );
        let mode = std::fs::metadata(&file)
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o640);
        let first = std::fs::read_to_string(folder.path().join("a.ini.bak")).expect("there");
        assert_eq!(first, "[pgbouncer]\n");
    }

    #[test]
    fn what_is_not_valid_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.ini");
        std::fs::write(&file, "[pgbouncer]\n").expect("writable");
        let after = apply(&advice("bad"), &file, &check).expect_err("a bad value");
        assert!(
            after
                .to_string()
                .contains(&format!("{}: a bad word", file.display())),
            "{after}"
        );
        assert_eq!(names(folder.path()), ["a.ini"]);
        std::fs::write(&file, "[pgbouncer]\nbad = 1\n").expect("writable");
        assert!(matches!(
            apply(&advice("5"), &file, &check),
            Err(ApplyError::InvalidBefore { .. })
        ));
        assert!(matches!(
            apply(&advice("5"), &folder.path().join("none"), &check),
            Err(ApplyError::Io { .. })
        ));
    }
}
