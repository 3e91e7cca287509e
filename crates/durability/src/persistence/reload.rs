//! DEBUG RELOAD: saves, empties and loads the keyspace, while the world is stopped.

use crate::persistence::{load, save};
use std::fs::File;
use std::io::Read;
use weft_config::Id;
use weft_executor::script::functions::Join;
use weft_keyspace::{Db, ExecContext, Guard, context::Free};
use weft_persist::rdb::file::{Counts, Loader, Trouble, Wrong};
use weft_process::{log_notice, log_warning};
use weft_state::server::Server;

/// The options of DEBUG RELOAD.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub saves: bool,
    pub empties: bool,
    /// Existing keys are replaced.
    pub merges: bool,
}

/// The step that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The data is unchanged.
    Saving,
    /// The data is lost, completely or in part.
    Loading,
}

/// See the module's description. O(all keys).
///
/// # Errors
/// See [`Failed`]. The log has the reasons.
pub fn reload(
    srv: &'static Server,
    guard: &Guard<'_>,
    context: &mut ExecContext,
    options: Options,
) -> Result<(), Failed> {
    if options.saves
        && let Err(e) = save::save_stopped(srv, guard, context)
    {
        log_warning!("Error while saving the DB: {e}");
        return Err(Failed::Saving);
    }
    let name = srv.config().str(Id::DBFILENAME).into_owned();
    let file = load::open_file(&name).map_err(|e| {
        log_warning!("Can't open '{name}': {}", weft_process::errors::words(&e));
        Failed::Loading
    })?;
    load_stopped(srv, guard, context, file, options).map_err(|trouble| {
        load::tell(&trouble);
        Failed::Loading
    })?;
    log_notice!("DB reloaded by DEBUG RELOAD");
    Ok(())
}

fn load_stopped(
    srv: &'static Server,
    guard: &Guard<'_>,
    context: &mut ExecContext,
    file: File,
    options: Options,
) -> Result<(), Trouble> {
    let rules = load::Rules::new(srv);
    let mut loader = Loader::open(file, rules.check, srv.ks.databases())?;
    if !rules.is_summed {
        loader.ignore_sum();
    }
    if options.empties {
        log_notice!("RDB signature and version check passed. Flushing old data");
        for db in 0..srv.ks.databases() {
            let taken = Db::new(guard, context, db).take_all();
            context.discard_all(taken.contents, Free::Background);
        }
    }
    put(guard, context, &mut loader, &rules, options.merges, Overdue::Expires)
        .and_then(|counts| {
            load::introduce(srv, loader.origin());
            let join = match options.empties {
                true => Join::Replace,
                false => Join::Add { replaces: options.merges },
            };
            let functions = load::conclude(srv, &loader, counts, join)?;
            srv.scripts.functions.replace(functions);
            Ok(())
        })
        .inspect_err(|trouble: &Trouble| {
            if let Wrong::Twice = trouble.wrong {
                log_warning!("RDB has a duplicated key, and MERGE was not given");
            }
        })
}

/// The treatment of a loaded key that has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overdue {
    /// It stays: data after the file may still name it.
    Stays,
    /// It expires like any key that a command accesses, so its deletion is logged: the log and
    /// replicas still have the key. It stays where keys may not expire, as on a replica.
    Expires,
}

/// Inserts all keys of a file into the keyspace.
fn put<R: Read>(
    guard: &Guard<'_>,
    context: &mut ExecContext,
    loader: &mut Loader<R>,
    rules: &load::Rules,
    merges: bool,
    overdue: Overdue,
) -> Result<Counts, Trouble> {
    let (mut counts, mut expired) = (Counts::default(), 0);
    rules.with_terms(true, |terms| {
        while let Some(piece) = loader.take(terms)? {
            piece.each(terms, &mut counts, |db, record| {
                let mut db = Db::new(guard, context, db);
                let name = record.key().to_vec();
                let key = db.key(&name);
                if db.contains(&key) && !merges {
                    return false;
                }
                db.set(&key, record);
                if overdue == Overdue::Expires && db.is_expired(&key) {
                    // A lookup removes the key, if keys may expire now.
                    let _ = db.contains(&key);
                    expired += u64::from(!db.is_expired(&key));
                }
                true
            })?;
        }
        counts.loaded -= expired;
        counts.expired += expired;
        Ok(counts)
    })
}

/// Loads a file that is the first part of another into the keyspace, which is empty.
///
/// # Errors
/// The fault of the file. A part of it may have been loaded.
pub fn load_front<R: Read>(
    srv: &'static Server,
    guard: &Guard<'_>,
    context: &mut ExecContext,
    file: R,
) -> Result<load::Front<R>, Trouble> {
    let rules = load::Rules::new(srv);
    let mut loader = Loader::open(file, rules.check, srv.ks.databases())?;
    if !rules.is_summed {
        loader.ignore_sum();
    }
    let counts = put(guard, context, &mut loader, &rules, false, Overdue::Stays)?;
    load::introduce(srv, loader.origin());
    let functions = load::conclude(srv, &loader, counts, Join::Replace)?;
    srv.scripts.functions.replace(functions);
    let (taken, origin) = (loader.offset(), loader.origin().clone());
    let (ahead, rest) = loader.into_rest();
    Ok(load::Front { taken, ahead, rest, origin, functions: None })
}
