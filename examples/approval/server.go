package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// server is the web server of a site: it serves the release that is live.
func (s Site) server() http.Handler {
	files := http.FileServer(http.Dir(s.path(current)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store") // the next release may come at any moment
		files.ServeHTTP(w, r)
	})
}

// serveHTTP answers requests until ctx ends.
func serveHTTP(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, IdleTimeout: time.Minute,
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(last) != nil {
			_ = server.Close() // a slow reader had a second
		}
	})
	err := server.Serve(l)
	if !stop() {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve %s: %w", l.Addr(), err)
}

// siteURL is the note with the address of the web server.
const siteURL = "site.url"

// note leaves a text for the other processes of a site.
func (s Site) note(name, text string) error {
	if err := os.MkdirAll(string(s), 0o755); err != nil {
		return err
	}
	temp, err := os.CreateTemp(string(s), "."+name+"-*") // readable for its owner only
	if err != nil {
		return err
	}
	_, err = temp.WriteString(text + "\n")
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), s.path(name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}

// noted returns the text stored under a name, "" if there is none.
func (s Site) noted(name string) (string, error) {
	text, err := os.ReadFile(s.path(name))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}
