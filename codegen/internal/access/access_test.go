package access

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

func TestCommandsOfLua(t *testing.T) {
	t.Parallel()
	const text = `redis.call('HSET', key, 'a', 'GETEX') -- redis.call('KEYS', '*')
local info = redis.pcall('CLUSTER', 'INFO')
call.leave(c, 'HSET', key)
`
	used := make(map[string]bool)
	var p header.Problems
	luaCommands([]header.SourceFile{{Name: "x.lua", Text: text}}, used, &p)
	if got := strings.Join(slices.Sorted(maps.Keys(used)), ","); got != "CLUSTER INFO,HSET" || p.Err() != nil {
		t.Errorf("%s, %v", got, p.Err())
	}
	luaCommands([]header.SourceFile{{Name: "x.lua", Text: "call.leave(c, 'LREM', key)\n"}}, used, &p)
	if err := p.Err(); err == nil || !strings.HasPrefix(err.Error(), "x.lua:1: LREM is a command") {
		t.Errorf("a command that is called under another name: %v", err)
	}
}

func TestCommandsOfGo(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, body string) {
		text := "package x\n\nfunc f(client rueidis.Client, given rueidis.Builder) {\n" + body + "\n}\n"
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.go", "client.B().Get().Key(k)\nb := client.B()\nb.FunctionLoad().Replace()\ngiven.Zrange()\nh := client.B().Hgetall\nother.Flushall()")
	write("a_test.go", "client.B().Flushdb()")
	used := make(map[string]bool)
	var p header.Problems
	if err := goCommands(root, ".", used, &p); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(slices.Sorted(maps.Keys(used)), ","); got != "FUNCTION LOAD,GET,HGETALL,ZRANGE" || p.Err() != nil {
		t.Errorf("%s, %v", got, p.Err())
	}
	write("b.go", `client.B().Arbitrary("GET")`)
	if err := goCommands(root, ".", used, &p); err != nil || p.Err() == nil {
		t.Errorf("a command without a name: %v, %v", err, p.Err())
	}
}

func TestAccessPage(t *testing.T) {
	t.Parallel()
	page, err := fillAccessPage("head\n"+accessBegin+"old\n"+accessEnd+"tail\n", aclRules([]string{"SET", "FUNCTION LIST"}), "+x")
	const rules = "on resetkeys ~ff:* resetchannels &ff:* -@all +function|list +set"
	if err != nil || !strings.Contains(page, "\nACL SETUSER app "+rules+"\n") || !strings.Contains(page, "\nACL SETUSER deployer "+rules+" +x\n") || strings.Contains(page, "old") {
		t.Errorf("%v\n%s", err, page)
	}
	if _, err := fillAccessPage("head\n", "", ""); err == nil {
		t.Error("a page without a place for the rules")
	}
}
