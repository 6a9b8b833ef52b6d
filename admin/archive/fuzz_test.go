package archive

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// FuzzOpen opens archives of any content. Open returns the content of the files, or an error that the archive is
// damaged; it reads no files except those in the archive.
func FuzzOpen(f *testing.F) {
	var p pending
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	e := Entry{Flow: "order", Run: "1", FlowID: "id", State: fabrictype.RunSucceeded, CreatedAt: at, ClosedAt: at.Add(time.Second), Nodes: 1}
	written := f.TempDir()
	require.NoError(f, p.add(written, e, func(add func(line) error) error {
		return errors.Join(add(line{Description: &runtime.RunDescription{RunDetail: fabrictype.RunDetail{Flow: "order", Run: "1"}}}), add(line{EventsLost: true}),
			add(line{Logs: &nodeLogs{Node: "a"}}))
	}))
	s, index, err := p.segment(1)
	require.NoError(f, err)
	m, err := json.Marshal(manifest{Format: format, Segments: []segment{s}})
	require.NoError(f, err)
	require.NoError(f, p.put(written, "segment"))
	segmentData, err := os.ReadFile(filepath.Join(written, "segment"))
	require.NoError(f, err)
	f.Add(m, index, segmentData)
	f.Add([]byte(`{"format":2,"segments":[{"name":"../other/secret","runs":1,"bytes":3,"index_bytes":3}]}`), []byte(nil), []byte(nil))
	f.Add([]byte(`{"format":2,"segments":[{"name":"","runs":-1}]}`), []byte("\n\n"), []byte("\x1f\x8b"))
	f.Add(m, []byte(`{"flow":"order","run":"1","flow_id":"id","offset":-9223372036854775808,"bytes":9223372036854775807}`+"\n"), segmentData)
	f.Fuzz(func(t *testing.T, m, index, data []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "archive")
		for path, content := range map[string][]byte{
			filepath.Join(dir, manifestName): m, filepath.Join(dir, "runs-000001"+indexEnd): index, filepath.Join(dir, "runs-000001"+segmentEnd): data,
			filepath.Join(parent, "other", "secret"+indexEnd): []byte("{}\n"), filepath.Join(parent, "other", "secret"+segmentEnd): []byte("abc"),
		} {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, content, 0o600))
		}
		a, err := Open(dir)
		if err != nil {
			return
		}
		for _, s := range a.manifest.Segments {
			require.Equal(t, s.Name, filepath.Base(s.Name), "a segment outside of the archive")
		}
		for e, err := range a.Entries("") {
			if err != nil {
				require.True(t, errors.Is(err, ErrDamaged) || errors.Is(err, fs.ErrNotExist), "%v", err)
				return
			}
			run, err := a.Read(e)
			if err != nil {
				require.ErrorIs(t, err, ErrDamaged)
				continue
			}
			require.Equal(t, e.FlowID, run.FlowID)
			_ = run.Description()
		}
	})
}

// A manifest from elsewhere does not make a program read other files.
func TestSegmentsStayInTheArchive(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"../runs-000001", "/etc/runs-000001", "a/runs-000001", `..\runs-000001`, "", ".", "runs-1/../../x"} {
		dir := t.TempDir()
		m, err := json.Marshal(manifest{Format: format, Segments: []segment{{Name: name}}})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, manifestName), m, 0o600))
		_, err = Open(dir)
		require.ErrorIs(t, err, ErrDamaged, name)
		require.ErrorContains(t, err, "is not a name of a segment", name)
	}
}
