package testserver

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TLSServer is a server that also speaks TLS, with a certificate that only Roots confirms.
type TLSServer struct {
	*Server
	// TLSAddr is host:port of its TLS port.
	TLSAddr string
	Roots   *x509.CertPool
}

// StartTLS runs a server that also speaks TLS. It stops with the test.
func StartTLS(tb testing.TB, k Kind) *TLSServer {
	tb.Helper()
	authority := NewAuthority(tb)
	s := StartTLSWith(tb, k, authority.Lines(tb, "127.0.0.1"))
	s.Roots = authority.Roots
	return s
}

// StartTLSWith is StartTLS with the configuration lines of a test, except the port. Roots is nil.
func StartTLSWith(tb testing.TB, k Kind, lines []string) *TLSServer {
	tb.Helper()
	return StartTLSOf(tb, Options{Kind: k}, lines)
}

// StartTLSOf is StartTLSWith with options.
func StartTLSOf(tb testing.TB, o Options, lines []string) *TLSServer {
	tb.Helper()
	bus, err := reservePort()
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	tb.Cleanup(bus.release)
	o.Args = append(append([]string{fmt.Sprintf("tls-port %d", bus.number)}, lines...), o.Args...)
	return &TLSServer{Server: Start(tb, o), TLSAddr: address(bus.number)}
}

// Authority signs certificates for servers.
type Authority struct {
	// Roots has its own certificate alone.
	Roots       *x509.CertPool
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	path, dir   string
}

// NewAuthority returns an authority whose files are gone with the test.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{dir: tb.TempDir(), Roots: x509.NewCertPool()}
	var der []byte
	template := certificateTemplate(1)
	template.IsCA, template.KeyUsage = true, x509.KeyUsageDigitalSignature|x509.KeyUsageCertSign
	a.key, der = a.sign(tb, template, template, nil)
	var err error
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	a.Roots.AddCert(a.certificate)
	a.path = a.write(tb, "authority", "CERTIFICATE", der)
	return a
}

// Lines are the lines of the configuration of a server at an IP address whose certificate is for another one, or the
// same.
func (a *Authority) Lines(tb testing.TB, certified string) []string {
	tb.Helper()
	template := certificateTemplate(2)
	template.IPAddresses = []net.IP{net.ParseIP(certified)}
	key, der := a.sign(tb, template, a.certificate, a.key)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	return []string{
		"tls-cert-file " + a.write(tb, certified, "CERTIFICATE", der),
		"tls-key-file " + a.write(tb, certified+"-key", "PRIVATE KEY", secret),
		"tls-ca-cert-file " + a.path, "tls-auth-clients no",
	}
}

func certificateTemplate(serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "testserver"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
}

// sign makes a key and its certificate, which signs itself when by is nil.
func (a *Authority) sign(
	tb testing.TB, template, parent *x509.Certificate, by *ecdsa.PrivateKey,
) (*ecdsa.PrivateKey, []byte) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, cmp.Or(by, key))
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	return key, der
}

func (a *Authority) write(tb testing.TB, name, kind string, content []byte) string {
	tb.Helper()
	path := filepath.Join(a.dir, name+".pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	return path
}
