package servertest

import (
	"crypto/tls"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// openFails checks that a URL is refused with an error that contains the given texts, and no password.
func openFails(t *testing.T, url string, says ...string) error {
	t.Helper()
	e, err := runtime.Open(enginetest.Context(t), url, runtime.OpenConfig{})
	if err == nil {
		require.NoError(t, e.Close())
		t.Errorf("%s is opened", url)
		return nil
	}
	for _, text := range says {
		require.ErrorContains(t, err, text, url)
	}
	if strings.Contains(url, "sec") {
		require.NotContains(t, err.Error(), "sec", url) // the beginning of the password
	}
	return err
}

// A URL that cannot be right is refused with the part at fault, its value and the rule, and without the password.
func TestFaultsOfURLs(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for url, says := range map[string][]string{
		"localhost":                                         {`"localhost"`, "valkey://localhost:6379", "embedded:localhost"},
		"redis":                                             {`"redis"`, "valkey://redis:6379"},
		"127.0.0.1:6379":                                    {"valkey://127.0.0.1:6379"},
		"secret@localhost":                                  {"no scheme", "valkey://user:password@host:6379"},
		"redis:localhost":                                   {"no host", "redis://host:port"},
		"valkey://":                                         {"no host", "valkey://host:port"},
		"valkey://:6379":                                    {`":6379" names no host`},
		"http://localhost:6379":                             {`scheme "http"`, "valkey"},
		"http://ann:secret@localhost:6379":                  {`scheme "http"`, "valkey"},
		"valkey+clutser://h":                                {`scheme "valkey+clutser"`, "cluster or sentinel"},
		" valkey://h":                                       {"space"},
		"valkey://h\n":                                      {"line break"},
		"./data":                                            {"embedded:./data"},
		"/data":                                             {"embedded:/data"},
		"embedded://data":                                   {"embedded:data"},
		"embedded:~/data":                                   {"~/data", "whole path"},
		"embedded:" + file:                                  {file, "not a directory"},
		"embedded:?fsnyc=always":                            {`"fsnyc"`, "fsync"},
		"embedded:?fsync=allways":                           {"fsync=allways", "always, everysec or never"},
		"valkey://h:0":                                      {`port "0"`, "1 to 65535"},
		"valkey://h:99999":                                  {`port "99999"`, "1 to 65535"},
		"valkey://h:":                                       {`port ""`},
		"valkey://h:port":                                   {`":port"`},
		"valkey://a,b":                                      {"several hosts, a,b", "valkey+cluster"},
		"valkey+sentinel://h":                               {"name-of-the-primary"},
		"valkey://h/first":                                  {`database "first"`, "number"},
		"valkey://h/-1":                                     {`database "-1"`, "from 0"},
		"valkey://h/1/2":                                    {`database "1/2"`},
		"valkey://h?db=first":                               {`database "first"`},
		"valkey://h?dial_timout=1s":                         {`"dial_timout"`, "dial_timeout"},
		"valkey://h?dial_timeout=1":                         {"dial_timeout=1", "unit"},
		"valkey://h?write_timeout=-1s":                      {"write_timeout=-1s"},
		"valkey://h?max_retries=3":                          {"max_retries=3", "must be 0"},
		"valkey://h?protocol=4":                             {"protocol=4", "2 or 3"},
		"valkey://h?skip_verify=true":                       {"skip_verify=true", "valkeys"},
		"valkeys://h?skip_verify=maybe":                     {"skip_verify=maybe", "true or false"},
		"valkey://h#x":                                      {"%23"},
		"valkey://ann:secret%zz@h":                          {"percent-encoded"},
		"valkey://ann:sec#ret@h":                            {"percent-encoded"},
		"valkey://ann:sec/ret@h":                            {"percent-encoded"},
		"valkey://ann:sec?ret@h":                            {"percent-encoded"},
		"valkey://ann:secret@h:port":                        {"port must be a number"},
		"valkey+cluster://ann:secret@h?contrct=":            {`"contrct"`, "contract"},
		"valkey://h/2?db=3":                                 {"/2", "db=3", "once"},
		"valkey://h?db=2&db=3":                              {"db is given 2 times"},
		"valkey://h?addr=/run/s.sock":                       {`"addr"`},
		"valkey+cluster://h/2":                              {"/2", "one database"},
		"valkey+cluster://h?db=2":                           {"db=2", "one database"},
		"valkey+sentinel://h/primary/2":                     {"db=2"},
		"valkey://h?sentinel_tls=true":                      {"sentinel_tls=true", "+sentinel"},
		"valkey+sentinel://h/p?sentinel_tls=x":              {"sentinel_tls=x", "true or false"},
		"valkey+sentinel://h/p?sentinel_username=ann":       {"without sentinel_password"},
		"valkey://h?sentinel_password=secret":               {"sentinel_password: it", "+sentinel"},
		"valkey+sentinel://h/p?sentinel_password=s&secret":  {"part of the password"},
		"valkey+sentinel://h/p?sentinel_password=%zzsecret": {"percent-encoded"},
		"embedded:/x?fsync=never&fsync=always":              {"fsync is given 2 times"},
		"valkey+unix://run/s.sock":                          {"valkey+unix:///run"},
		"valkey+unix:///":                                   {"path of a socket"},
		"valkeys+unix:///run/s.sock":                        {"no TLS over a socket"},
		"unix:s.sock":                                       {"path of a socket"},
	} {
		err := openFails(t, url, says...)
		if url != "embedded:"+file {
			require.ErrorIs(t, err, runtime.ErrInvalid, url)
		}
	}
}

// An error about a URL that only the server can detect names its possible cause.
func TestFaultsOfURLsAtServers(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Servers(t) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			addr := testserver.Start(t, testserver.Options{Kind: kind}).Addr()
			openFails(t, "valkey://"+addr+"/99", "no database 99", `"databases"`)
			require.ErrorIs(t, openFails(t, "valkey://ann:secret@"+addr, "WRONGPASS"), enginecore.ErrUnauthorized)
			require.ErrorIs(t, openFails(t, "valkey://secret@"+addr, "a password alone is redis://:password@host"), enginecore.ErrUnauthorized)
			require.ErrorIs(t, openFails(t, "valkeys://:secret@"+addr+"?dial_timeout=1s", "one without TLS"), enginecore.ErrNotReachable)
			require.ErrorIs(t, openFails(t, "valkey+sentinel://"+addr+"/primary", "it is not a sentinel"), enginecore.ErrUnsupportedServer)
		})
	}
}

// A URL that names one node of a cluster as a server is answered with the scheme of clusters.
func TestURLOfANodeOfACluster(t *testing.T) {
	t.Parallel()
	if len(testserver.Servers(t)) == 0 {
		t.Skip("needs a server")
	}
	cluster := testserver.StartCluster(t, testserver.Valkey, 3)
	for _, slot := range []int{0, 8192, 16383} {
		openFails(t, "valkey://"+cluster.Owner(t, slot).Addr(), "node of a cluster", "valkey+cluster")
	}
}

// A server with TLS closes a connection on which something else comes.
func TestFaultOfURLWithoutTLS(t *testing.T) {
	t.Parallel()
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", web.TLS)
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = conn.(*tls.Conn).Handshake()
				_ = conn.Close()
			}()
		}
	}()
	err = openFails(t, "valkey://:secret@"+listener.Addr().String(), "one with TLS", "valkeys")
	require.ErrorIs(t, err, enginecore.ErrNotReachable)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, silent.Close())
	openFails(t, "valkey://:secret@"+silent.Addr().String(), silent.Addr().String(), "refused")
}
