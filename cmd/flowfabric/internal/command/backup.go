package command

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/admin/backup"
	"github.com/flowfabric/flowfabric-go/admin/move"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/profile"
)

func (a *App) backupCommand() *cobra.Command {
	return a.group("backup", "Write the data of an engine to a file, and restore them", a.backupWrite(),
		a.backupCheck(), a.backupRestore())
}

// dataWhere is the engine that a command on its data is about, without opening it.
func (r *request) dataWhere() (connect.Where, error) {
	where, err := r.where()
	if err == nil {
		err = where.Check()
	}
	if err == nil && where.IsServer() {
		err = usage("%s: needs an engine, got the server %s", nameOf(r.cmd), where.URL)
	}
	return where, err
}

func (a *App) backupWrite() *cobra.Command {
	return a.standalone(spec{
		use: "write FILE", short: "Write the data of an engine to a file",
		long: "Writes all data of the prefix to a file, which replaces an existing one when it is complete. The " +
			"directory of an embedded engine may be in use: the file has its data of one moment. No program may use" +
			" a server during the backup; back up a server in use by its own snapshots.\n\nThe file has the inputs " +
			"and results of runs, and the secrets of waitpoints. Only its owner can read it.",
		example: "  flowfabric backup write /var/backups/flows --url embedded:/var/lib/flows",
		do: func(r *request) error {
			where, err := r.dataWhere()
			if err != nil {
				return err
			}
			report, err := backup.Write(r, where.URL, r.args[0], backup.Config{
				Prefix: where.Prefix, Progress: r.progress(),
			})
			return r.printBackup(report, err)
		},
	})
}

func (a *App) backupCheck() *cobra.Command {
	return a.standalone(spec{
		use: "check FILE", short: "Read a backup and verify its checksum and counts; needs no engine",
		do: func(r *request) error {
			report, err := backup.Check(r, r.args[0])
			return r.printBackup(report, err)
		},
	})
}

func (a *App) backupRestore() *cobra.Command {
	c := a.standalone(spec{
		use: "restore FILE", short: "Restore a backup into an empty engine",
		long: "Checks the file, writes its keys into an engine that has none with the prefix, and compares " +
			"both. Until then, no program can open the engine. Repeat the command after an interruption.",
		example: "  flowfabric backup restore /var/backups/flows --url valkey://localhost:6379 --yes",
		do: func(r *request) error {
			where, err := r.dataWhere()
			if err != nil {
				return err
			}
			if err := r.confirm("restore " + r.args[0] + " into " + connect.ShownURL(where.URL)); err != nil {
				return err
			}
			report, err := backup.Restore(r, r.args[0], where.URL, backup.Config{
				Prefix: where.Prefix, Progress: r.progress(),
			})
			return r.printBackup(report, err)
		},
	})
	c.Flags().BoolVarP(&a.flags.yes, "yes", "y", false, "do not ask")
	return c
}

func (r *request) printBackup(report backup.Report, err error) error {
	r.sayNotSeen(report.NotSeen)
	if err != nil {
		return err
	}
	return r.out.Value(report, report.SHA256, fmt.Sprintf(
		"prefix: %s, keys: %d, runs with child runs: %d, of which open: %d, schedules: %d, protocol: %s, SHA-256: %s",
		report.Prefix, report.Keys, report.Runs, report.OpenRuns, report.Schedules, report.Protocol, report.SHA256))
}

func (r *request) sayNotSeen(parts []string) {
	for _, part := range parts {
		fmt.Fprintf(r.Stderr, "flowfabric: not checked, for lack of rights: %s\n", part)
	}
}

// progress prints how far a command is, for people at a terminal.
func (r *request) progress() func(step string, keys int) {
	if !r.interactive() {
		return nil
	}
	const every = 10_000
	step, shown := "", 0
	return func(now string, keys int) {
		if now != step {
			step, shown = now, 0
		}
		if keys >= shown+every {
			shown = keys
			fmt.Fprintf(r.Stderr, "%s: %d keys\n", now, keys)
		}
	}
}

func (a *App) moveCommand() *cobra.Command {
	var giveUp bool
	c := a.standalone(spec{
		use: "move FROM TO", short: "Move the data of an engine to another one",
		long: "Moves all data of the prefix from one engine to another: from a directory to a server, from a " +
			"server to another one or to a cluster, and back. Runs keep their ids, states and open waits. " +
			"Stop all programs before, and start them with the URL of the new engine afterwards: neither " +
			"engine can be opened during the move, and the old one names the new engine afterwards.\n\n" +
			"FROM and TO are URLs of engines or names of profiles. Repeat the command after an interruption.",
		example: "  flowfabric move embedded:/var/lib/flows valkey://localhost:6379 --dry-run\n" +
			"  flowfabric move embedded:/var/lib/flows valkey://localhost:6379 --yes",
		do: func(r *request) error {
			from, prefix, err := r.movable(r.args[0])
			if err != nil {
				return err
			}
			to, _, err := r.movable(r.args[1])
			if err != nil {
				return err
			}
			if r.flags.prefix != "" {
				prefix = r.flags.prefix
			}
			return r.move(from, to, move.Config{Prefix: prefix, Progress: r.progress()}, giveUp)
		},
	})
	c.Flags().BoolVar(&giveUp, "cancel", false, "cancel an incomplete move: the old engine can be used again")
	c.Flags().BoolVarP(&a.flags.yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&a.flags.dryRun, "dry-run", false, "only count the keys to move")
	return c
}

// movable is the engine that an argument of move names, and the prefix that its profile has.
func (r *request) movable(arg string) (url, prefix string, err error) {
	url = arg
	if !strings.Contains(arg, ":") {
		file, err := profile.Read(profile.Path(r.Env))
		if err != nil {
			return "", "", err
		}
		p, err := file.Named(arg)
		if err != nil {
			return "", "", err
		}
		url, prefix = p.URL, p.Prefix
	}
	if (connect.Where{URL: url}).IsServer() {
		return "", "", usage("move: needs engines, got the server %s", url)
	}
	return url, prefix, nil
}

func (r *request) move(from, to string, config move.Config, giveUp bool) error {
	names := connect.ShownURL(from) + " to " + connect.ShownURL(to)
	switch {
	case giveUp && r.flags.dryRun:
		return usage("move: --cancel and --dry-run exclude each other")
	case giveUp:
		if err := r.confirm("give up the move from " + names + ", and remove the copied keys"); err != nil {
			return err
		}
		return move.Cancel(r, from, to, config)
	case r.flags.dryRun:
		report, err := move.Plan(r, from, to, config)
		return r.printMove("would move", report, err)
	}
	if err := r.confirm("move all data with the prefix from " + names); err != nil {
		return err
	}
	report, err := move.Run(r, from, to, config)
	text := "moved"
	if report.Already {
		text = "had been moved before"
	}
	return r.printMove(text, report, err)
}

func (r *request) printMove(what string, report move.Report, err error) error {
	r.sayNotSeen(report.NotSeen)
	if err != nil {
		return err
	}
	return r.out.Value(report, strconv.Itoa(report.Keys), fmt.Sprintf(
		"%s: keys: %d (%d bytes), runs with child runs: %d, of which open: %d, schedules: %d, partitions: %d", what,
		report.Keys, report.Bytes, report.Runs, report.OpenRuns, report.Schedules, report.Partitions.Flow))
}
