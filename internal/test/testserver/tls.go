package testserver

import (
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
	certificate, key, roots := selfSigned(tb)
	s := StartTLSWith(tb, k, []string{
		"tls-cert-file " + certificate, "tls-key-file " + key, "tls-ca-cert-file " + certificate, "tls-auth-clients no",
	})
	s.Roots = roots
	return s
}

// StartTLSWith is StartTLS with the lines of the configuration that a test brings, but for the port. Roots is nil.
func StartTLSWith(tb testing.TB, k Kind, lines []string) *TLSServer {
	tb.Helper()
	bus, err := reservePort()
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	tb.Cleanup(bus.release)
	return &TLSServer{
		Server:  Start(tb, Options{Kind: k, Args: append([]string{fmt.Sprintf("tls-port %d", bus.number)}, lines...)}),
		TLSAddr: address(bus.number),
	}
}

// selfSigned writes a certificate for 127.0.0.1, which is its own authority, and its key.
func selfSigned(tb testing.TB) (certificate, key string, roots *x509.CertPool) {
	tb.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "testserver"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	dir := tb.TempDir()
	write := func(name, kind string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
			tb.Fatalf("testserver: %v", err)
		}
		return path
	}
	roots = x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	roots.AddCert(parsed)
	return write("certificate.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", secret), roots
}
