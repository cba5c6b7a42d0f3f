// pgx: every way of executing a query, batches, CopyFrom, pgxpool, cancelling by context.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

var (
	poolSize = must(strconv.Atoi(os.Getenv("WEIR_POOL_SIZE")))
	// More clients than the pooler has server connections.
	clients = poolSize*2 + 2
	modes   = []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement,
		pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec,
		pgx.QueryExecModeSimpleProtocol,
	}
)

// failure is what a scenario panics with; everything is found in libpq's environment variables.
type failure struct{ error }

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func equal[T any](found, expected T) {
	if !reflect.DeepEqual(found, expected) {
		panic(failure{fmt.Errorf("found %.300v, expected %.300v", found, expected)})
	}
}

// refused checks that err is the server's, with this SQLSTATE.
func refused(err error, state string) {
	var server *pgconn.PgError
	if !errors.As(err, &server) || server.Code != state {
		panic(failure{fmt.Errorf("SQLSTATE %s expected: %v", state, err)})
	}
}

func guarded(work func()) (err error) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case failure:
			err = cause.error
		default:
			panic(cause)
		}
	}()
	work()
	return nil
}

func byMany(work func(client int)) {
	var group errgroup.Group
	for client := range clients {
		group.Go(func() error { return guarded(func() { work(client) }) })
	}
	check(group.Wait())
}

func withConnection(ctx context.Context, mode pgx.QueryExecMode, work func(*pgx.Conn)) {
	config := must(pgx.ParseConfig(""))
	config.DefaultQueryExecMode = mode
	connection := must(pgx.ConnectConfig(ctx, config))
	defer connection.Close(ctx)
	work(connection)
}

func freshTable(ctx context.Context, name string) {
	withConnection(ctx, pgx.QueryExecModeSimpleProtocol, func(connection *pgx.Conn) {
		must(connection.Exec(ctx, "DROP TABLE IF EXISTS "+name+"; CREATE TABLE "+name+" (id int PRIMARY KEY, client int, text text)"))
	})
}

func number(ctx context.Context, connection interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, sql string, arguments ...any) (found int) {
	check(connection.QueryRow(ctx, sql, arguments...).Scan(&found))
	return found
}

func everyModeOfExecuting(ctx context.Context) {
	for _, mode := range modes {
		table := "pgx_" + strings.ReplaceAll(mode.String(), " ", "_")
		freshTable(ctx, table)
		byMany(func(client int) {
			withConnection(ctx, mode, func(connection *pgx.Conn) {
				for n := range 15 {
					id := client*100 + n
					must(connection.Exec(ctx, "INSERT INTO "+table+" VALUES ($1, $2, $3)", id, client, fmt.Sprint("text ", n)))
					var text string
					check(connection.QueryRow(ctx, "SELECT text FROM "+table+" WHERE id = $1", id).Scan(&text))
					equal(text, fmt.Sprint("text ", n))
					_, err := connection.Exec(ctx, "INSERT INTO "+table+" VALUES ($1, 0, '')", id)
					refused(err, "23505")
					_, err = connection.Exec(ctx, "SELECT 1 / $1::int", 0)
					refused(err, "22012")
					_, err = connection.Exec(ctx, "SELECT no_column")
					refused(err, "42703")
					equal(number(ctx, connection, fmt.Sprintf("SELECT $1::int + %d", n%4), client), client+n%4)
				}
				equal(number(ctx, connection, "SELECT count(*) FROM "+table+" WHERE client = $1", client), 15)
			})
		})
	}
}

func typesInEveryMode(ctx context.Context) {
	type values struct {
		number  int64
		text    string
		bytes   []byte
		numbers []int32
		time    time.Time
		nothing *string
	}
	byMany(func(client int) {
		withConnection(ctx, modes[client%len(modes)], func(connection *pgx.Conn) {
			given := values{1 << 40, "ü € \U0001F980 it's", []byte{0, 255}, []int32{1, 2}, time.UnixMicro(1709208000123456).UTC(), nil}
			for range 5 {
				var found values
				row := connection.QueryRow(ctx, "SELECT $1::bigint, $2::text, $3::bytea, $4::int[], $5::timestamptz, $6::text",
					given.number, given.text, given.bytes, given.numbers, given.time, given.nothing)
				check(row.Scan(&found.number, &found.text, &found.bytes, &found.numbers, &found.time, &found.nothing))
				found.time = found.time.UTC()
				equal(found, given)
			}
			big := strings.Repeat("x", 3_000_000)
			var found string
			check(connection.QueryRow(ctx, "SELECT $1::text", big).Scan(&found))
			equal(found, big)
		})
	})
}

func transactions(ctx context.Context) {
	freshTable(ctx, "pgx_transactions")
	byMany(func(client int) {
		withConnection(ctx, modes[client%len(modes)], func(connection *pgx.Conn) {
			for n := range 10 {
				giveUp := errors.New("the program gives up")
				err := pgx.BeginTxFunc(ctx, connection, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
					must(tx.Exec(ctx, "INSERT INTO pgx_transactions VALUES ($1, $2, '')", client*100+n, client))
					refused(pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
						_, err := savepoint.Exec(ctx, "INSERT INTO pgx_transactions VALUES ($1, $2, '')", client*100+n, client)
						return err
					}), "23505")
					equal(number(ctx, tx, "SELECT count(*) FROM pgx_transactions WHERE client = $1", client), (n+1)/2+1)
					if n%2 == 1 {
						return giveUp
					}
					return nil
				})
				equal(errors.Is(err, giveUp), n%2 == 1)
			}
		})
	})
}

func batches(ctx context.Context) {
	freshTable(ctx, "pgx_batches")
	byMany(func(client int) {
		withConnection(ctx, modes[client%len(modes)], func(connection *pgx.Conn) {
			for round := range 5 {
				batch := &pgx.Batch{}
				for n := range 20 {
					id := client*1000 + round*20 + n
					batch.Queue("INSERT INTO pgx_batches VALUES ($1, $2, $3)", id, client, "text")
					batch.Queue("SELECT id FROM pgx_batches WHERE id = $1", id).QueryRow(func(row pgx.Row) error {
						var found int
						check(row.Scan(&found))
						equal(found, id)
						return nil
					})
				}
				check(connection.SendBatch(ctx, batch).Close())
				failing := &pgx.Batch{}
				failing.Queue("DELETE FROM pgx_batches WHERE client = $1", client)
				failing.Queue("SELECT 1 / $1::int", 0)
				failing.Queue("SELECT 'skipped'")
				refused(connection.SendBatch(ctx, failing).Close(), "22012")
				equal(number(ctx, connection, "SELECT count(*) FROM pgx_batches WHERE client = $1", client), (round+1)*20)
			}
		})
	})
}

func pipelines(ctx context.Context) {
	byMany(func(client int) {
		withConnection(ctx, pgx.QueryExecModeExec, func(connection *pgx.Conn) {
			pipeline := connection.PgConn().StartPipeline(ctx)
			pipeline.SendPrepare("named", fmt.Sprintf("SELECT $1::int + %d", client), nil)
			check(pipeline.Sync())
			description, ok := must(pipeline.GetResults()).(*pgconn.StatementDescription)
			equal(ok, true)
			equal(len(description.ParamOIDs), 1)
			must(pipeline.GetResults()) // the Sync
			for n := range 50 {
				pipeline.SendQueryPrepared("named", [][]byte{[]byte(strconv.Itoa(n))}, nil, nil)
				if n%10 == 5 {
					// The server answers as far as it is; the transaction stays open.
					pipeline.SendFlushRequest()
					check(pipeline.Flush())
				}
			}
			pipeline.SendQueryParams("SELECT 1 / $1::int", [][]byte{[]byte("0")}, nil, nil, nil)
			pipeline.SendQueryPrepared("named", [][]byte{[]byte("0")}, nil, nil)
			check(pipeline.Sync())
			pipeline.SendDeallocate("named")
			check(pipeline.Sync())
			for n := range 50 {
				rows := must(pipeline.GetResults()).(*pgconn.ResultReader).Read()
				check(rows.Err)
				equal(string(rows.Rows[0][0]), strconv.Itoa(n+client))
			}
			refused(drain(pipeline), "22012")
			check(drain(pipeline))
			check(pipeline.Close())
			equal(number(ctx, connection, "SELECT $1::int", client), client)
		})
	})
}

// drain reads up to the next Sync; gives the first error before it.
func drain(pipeline *pgconn.Pipeline) (first error) {
	for {
		results, err := pipeline.GetResults()
		if reader, ok := results.(*pgconn.ResultReader); ok && err == nil {
			err = reader.Read().Err
		}
		if err != nil && first == nil {
			first = err
		}
		if _, ok := results.(*pgconn.PipelineSync); ok || (results == nil && err == nil) {
			return first
		}
	}
}

func copies(ctx context.Context) {
	freshTable(ctx, "pgx_copies")
	columns := []string{"id", "client", "text"}
	byMany(func(client int) {
		withConnection(ctx, modes[client%len(modes)], func(connection *pgx.Conn) {
			source := func(first, count int) pgx.CopyFromSource {
				return pgx.CopyFromSlice(count, func(n int) ([]any, error) {
					return []any{client*10000 + first + n, client, strings.Repeat("x", n%100)}, nil
				})
			}
			equal(must(connection.CopyFrom(ctx, pgx.Identifier{"pgx_copies"}, columns, source(0, 3000))), 3000)
			_, err := connection.CopyFrom(ctx, pgx.Identifier{"pgx_copies"}, columns, source(2999, 50))
			refused(err, "23505")
			_, err = connection.CopyFrom(ctx, pgx.Identifier{"pgx_copies"}, columns, pgx.CopyFromFunc(func() ([]any, error) {
				return nil, errors.New("the program gives up")
			}))
			equal(err != nil, true)
			equal(number(ctx, connection, "SELECT count(*) FROM pgx_copies WHERE client = $1", client), 3000)
			var out strings.Builder
			tag := must(connection.PgConn().CopyTo(ctx, &out, fmt.Sprintf("COPY (SELECT id FROM pgx_copies WHERE client = %d ORDER BY id) TO STDOUT", client)))
			equal(tag.RowsAffected(), 3000)
			lines := strings.Fields(out.String())
			equal(len(lines), 3000)
			equal(lines[2999], strconv.Itoa(client*10000+2999))
		})
	})
}

func newPool(ctx context.Context) *pgxpool.Pool {
	config := must(pgxpool.ParseConfig(""))
	config.MaxConns = int32(clients)
	return must(pgxpool.NewWithConfig(ctx, config))
}

func pool(ctx context.Context) {
	freshTable(ctx, "pgx_pool")
	pool := newPool(ctx)
	defer pool.Close()
	byMany(func(client int) {
		for n := range 30 {
			must(pool.Exec(ctx, "INSERT INTO pgx_pool VALUES ($1, $2, '')", client*100+n, client))
			rows := must(pool.Query(ctx, "SELECT id FROM pgx_pool WHERE client = $1 ORDER BY id", client))
			ids := must(pgx.CollectRows(rows, pgx.RowTo[int]))
			equal(len(ids), n+1)
			equal(ids[n], client*100+n)
			_, err := pool.Exec(ctx, "SELECT 1 / $1::int", 0)
			refused(err, "22012")
		}
	})
	equal(number(ctx, pool, "SELECT count(*) FROM pgx_pool"), clients*30)
}

func cancelledContexts(ctx context.Context) {
	pool := newPool(ctx)
	defer pool.Close()
	const sleep = "SELECT pg_sleep(62)"
	byMany(func(client int) {
		for n := range 3 {
			short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			_, err := pool.Exec(short, sleep)
			cancel()
			equal(errors.Is(err, context.DeadlineExceeded), true)
			equal(number(ctx, pool, "SELECT $1::int", n), n)
		}
	})
	// The driver closes such a connection: the pooler ends what it has left.
	deadline := time.Now().Add(20 * time.Second)
	for number(ctx, pool, "SELECT count(*) FROM pg_stat_activity WHERE query = $1 AND state = 'active'", sleep) > 0 {
		if time.Now().After(deadline) {
			check(errors.New("statements that nobody waits for go on"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func cancelRequests(ctx context.Context) {
	withConnection(ctx, pgx.QueryExecModeExec, func(observer *pgx.Conn) {
		for n := range 5 {
			withConnection(ctx, modes[n], func(connection *pgx.Conn) {
				sleep := fmt.Sprintf("SELECT pg_sleep(63), 'cancelled %d'", n)
				var group errgroup.Group
				group.Go(func() error {
					return guarded(func() {
						_, err := connection.Exec(ctx, sleep)
						refused(err, "57014")
					})
				})
				deadline := time.Now().Add(20 * time.Second)
				for number(ctx, observer, "SELECT count(*) FROM pg_stat_activity WHERE query = $1 AND state = 'active'", sleep) == 0 {
					if time.Now().After(deadline) {
						check(errors.New("the statement did not start"))
					}
				}
				check(connection.PgConn().CancelRequest(ctx))
				check(group.Wait())
				equal(number(ctx, connection, "SELECT $1::int", n), n)
			})
		}
	})
}

func noMoreServerConnections(ctx context.Context) {
	withConnection(ctx, pgx.QueryExecModeExec, func(connection *pgx.Conn) {
		count := number(ctx, connection, "SELECT count(*) FROM pg_stat_activity WHERE usename = current_user")
		if count > poolSize {
			check(fmt.Errorf("%d server connections", count))
		}
	})
}

func main() {
	scenarios := []struct {
		name string
		run  func(context.Context)
	}{
		{"every mode of executing", everyModeOfExecuting},
		{"types in every mode", typesInEveryMode},
		{"transactions", transactions},
		{"batches", batches},
		{"pipelines", pipelines},
		{"copies", copies},
		{"pool", pool},
		{"cancelled contexts", cancelledContexts},
		{"cancel requests", cancelRequests},
		{"no more server connections than the pool has", noMoreServerConnections},
	}
	failed := 0
	for _, scenario := range scenarios {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := guarded(func() { scenario.run(ctx) }); err != nil {
			failed++
			fmt.Printf("FAILED: %s: %v\n", scenario.name, err)
		}
		cancel()
	}
	fmt.Printf("%d passed, %d failed\n", len(scenarios)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
