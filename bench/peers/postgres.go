package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// postgresUnprivileged is the user as whom PostgreSQL runs when this command runs as root, which PostgreSQL refuses.
const postgresUnprivileged = "nobody"

// postgresReadyWithin is how long the server may take to start.
const postgresReadyWithin = time.Minute

// postgres is a PostgreSQL server with a database of its own in a temporary folder.
type postgres struct {
	process *process
	dir     string
	port    int
}

// startPostgres creates a database and runs its server. Without fsync the server acknowledges commits before they are
// on disk (synchronous_commit=off), which loses the latest ones when it is killed.
func startPostgres(ctx context.Context, fsync bool) (p *postgres, err error) {
	programs, ok := testserver.PostgreSQL()
	if !ok {
		return nil, errors.New("there is no PostgreSQL: run without -measure, which fetches it, or install it")
	}
	dir, err := os.MkdirTemp("", "flowfabric-postgres-")
	if err != nil {
		return nil, err
	}
	p = &postgres{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(programs, "initdb"), "-D", data, "-U", "postgres", "-A", "trust",
		"-E", "UTF8", "--locale=C", "--no-sync")
	if err := p.unprivileged(initdb); err != nil {
		return nil, err
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if p.port, err = freePort(); err != nil {
		return nil, err
	}
	commit := "off"
	if fsync {
		commit = "on"
	}
	server := exec.Command(filepath.Join(programs, "postgres"), "-D", data, "-p", strconv.Itoa(p.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "synchronous_commit="+commit)
	if err := p.unprivileged(server); err != nil {
		return nil, err
	}
	output, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer output.Close()
	server.Stdout, server.Stderr = output, output
	if p.process, err = startProcess(server, syscall.SIGQUIT); err != nil {
		return nil, err
	}
	return p, p.ready(ctx)
}

// unprivileged lets a command run as a user that may not write anything but the folder of the database, if this process
// is root's.
func (p *postgres) unprivileged(cmd *exec.Cmd) error {
	cmd.Dir = p.dir
	if os.Geteuid() != 0 {
		return nil
	}
	nobody, err := user.Lookup(postgresUnprivileged)
	if err != nil {
		return fmt.Errorf("PostgreSQL does not run as root, so it needs the user %s: %w", postgresUnprivileged, err)
	}
	uid, err := strconv.ParseUint(nobody.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(nobody.Gid, 10, 32)
	if err != nil {
		return err
	}
	asUser(cmd, uint32(uid), uint32(gid))
	return os.Chown(p.dir, int(uid), int(gid))
}

// ready waits until the server answers.
func (p *postgres) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, postgresReadyWithin)
	defer cancel()
	return poll(ctx, func() (bool, error) {
		select {
		case <-p.process.gone:
			text, err := os.ReadFile(filepath.Join(p.dir, "log"))
			return false, errors.Join(fmt.Errorf("PostgreSQL has ended:\n%s", text), err)
		default:
		}
		connection, err := pgx.Connect(ctx, p.url())
		if err != nil {
			return false, nil // it does not answer yet
		}
		return true, connection.Close(ctx)
	})
}

func (p *postgres) url() string {
	return "postgres://postgres@" + net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) + "/postgres?sslmode=disable"
}

func (p *postgres) close() error {
	var err error
	if p.process != nil {
		err = p.process.stop(30 * time.Second)
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

// freePort is a port that was free just now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	_, port, _ := strings.Cut(l.Addr().String(), ":")
	number, err := strconv.Atoi(port)
	return number, errors.Join(err, l.Close())
}
