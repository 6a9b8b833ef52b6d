package embedded

import "context"

type effectLog struct {
	end    int64
	policy Fsync
}

func (l *effectLog) append(b []byte) error                     { return nil }
func (l *effectLog) failure() error                            { return nil }
func (l *effectLog) full() bool                                { return false }
func (l *effectLog) wait(ctx context.Context, pos int64) error { return nil }
func (l *effectLog) progress() (int64, error)                  { return 0, nil }
func (l *effectLog) holdsBack(pos int64) bool                  { return false }
func (l *effectLog) changed() <-chan struct{}                  { return nil }
func (l *effectLog) close() error                              { return nil }
func startRecord(b []byte) []byte                              { return b }
func appendCommand(b []byte, w []string) []byte                { return b }
func (e *Engine) openLog(ctx context.Context, o Options) error { return nil }
func (e *Engine) snapshot()                                    {}
