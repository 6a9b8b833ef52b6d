package embedded

import (
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/command"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

// call is one command as it runs.
type call struct {
	command.Call
	e    *Engine
	sess *session // nil outside of connections
}

// engineCommand is a command that needs the engine or a connection.
type engineCommand struct {
	name  string
	arity int
	flags command.Flags
	run   func(c *call) resp.Reply
}

// boundCommand is a command of one engine, with its statistics for INFO.
type boundCommand struct {
	command.Command
	own   func(c *call) resp.Reply // runs instead of Run, if it is not nil
	calls int64
	spent time.Duration // as a separate unit, not within functions and transactions
}

func (cmd *boundCommand) run(c *call) resp.Reply {
	if cmd.own != nil {
		return cmd.own(c)
	}
	return cmd.Run(&c.Call)
}

// commandTable returns all commands by name in both usual spellings, so that finding one costs a single look-up.
func commandTable() map[string]*boundCommand {
	t := make(map[string]*boundCommand, 256)
	add := func(cmd *boundCommand) {
		t[cmd.Name] = cmd
		t[strings.ToUpper(cmd.Name)] = cmd
	}
	for _, cmd := range command.All() {
		add(&boundCommand{Command: cmd})
	}
	for _, group := range [][]engineCommand{serverCommands(), pubsubCommands(), functionCommands()} {
		for _, cmd := range group {
			add(&boundCommand{
				Command: command.Command{Name: cmd.name, Arity: cmd.arity, Flags: cmd.flags}, own: cmd.run,
			})
		}
	}
	return t
}

func (e *Engine) command(name string) *boundCommand { return lookup(e.commands, name) }

// lookup finds a command by its name in any spelling.
func lookup(commands map[string]*boundCommand, name string) *boundCommand {
	if cmd, ok := commands[name]; ok {
		return cmd
	}
	return commands[strings.ToLower(name)]
}
