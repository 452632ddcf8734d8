package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/podfall/podfall/internal/homeport"
	"github.com/podfall/podfall/proto"
)

// User is an identity that may connect, with its public key.
type User struct {
	Identity proto.Identity
	// Public is the public nkey that proves the identity.
	Public string
}

// ServerConfig configures a bus in this process.
type ServerConfig struct {
	// Host to listen on; empty means 127.0.0.1.
	Host string
	// Port to listen on. Port 0 picks a free port. Port -1 opens no socket: such a server is
	// reached by InProcessConn only, and works inside a testing/synctest bubble.
	Port int
	// Users may connect, each with the permissions of its identity. Without users the bus is open:
	// everyone who reaches it has full access.
	Users []User
	// MaxPayload is the largest message in bytes; 0 means 8 MiB.
	MaxPayload int32
	// Log receives refused clients and slow readers; it may be nil.
	Log *slog.Logger
}

// InProcessOnly is the ServerConfig.Port of a server without a socket.
const InProcessOnly = -1

const (
	defaultHost       = "127.0.0.1"
	defaultMaxPayload = 8 << 20
	startTimeout      = 2 * time.Minute // generous, for a busy machine: a server that cannot start reports it earlier
	authTimeout       = 10 * time.Second
	startCheck        = 50 * time.Millisecond
	writeDeadline     = 10 * time.Second
	serverPing        = 30 * time.Second
)

// Server is an embedded NATS server: the hub of a cluster, or a node bus. It carries core NATS
// messages only: no JetStream, no system account, no monitoring port.
type Server struct {
	nats   *server.Server
	listen bool
}

// errNotReady means that a server did not start in time.
var errNotReady = errors.New("not ready in time")

// StartServer starts a bus and waits until it accepts connections. Close it when done. A reader
// that takes no bytes for 10 seconds is disconnected. A reader with 48 MiB of unsent messages loses
// messages and slows nothing down.
func StartServer(ctx context.Context, cfg ServerConfig) (*Server, error) {
	cfg = cfg.withDefaults()
	if cfg.Port != 0 {
		return startOnPort(ctx, cfg)
	}
	for tries := 0; ; tries++ {
		port, err := homeport.Free(ctx, cfg.Host)
		if err != nil {
			return nil, fmt.Errorf("start bus: %w", err)
		}
		cfg.Port = port
		if s, err := startOnPort(ctx, cfg); err == nil || tries == maxPortRetries {
			return s, err // another process may have taken the port meanwhile
		}
	}
}

func startOnPort(ctx context.Context, cfg ServerConfig) (*Server, error) {
	ns, err := server.NewServer(cfg.options())
	if err != nil {
		return nil, fmt.Errorf("start bus: %w", err)
	}
	log := newServerLog(ctx, cfg.Log)
	ns.SetLogger(log, false, false)
	ns.Start()
	if err := waitReady(ctx, ns, log); err != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil, fmt.Errorf("start bus: %w", err)
	}
	return &Server{nats: ns, listen: cfg.Port != InProcessOnly}, nil
}

// maxPortRetries is how often another port is tried.
const maxPortRetries = 3

// waitReady waits until the server accepts connections or reports a fatal error.
func waitReady(ctx context.Context, ns *server.Server, log *serverLog) error {
	for range startTimeout / startCheck {
		if ns.ReadyForConnections(startCheck) {
			return nil
		}
		if text := log.fatal.Load(); text != nil {
			return fmt.Errorf("%w: %s", errNotReady, *text)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errNotReady
}

func (cfg ServerConfig) withDefaults() ServerConfig {
	if cfg.Host == "" {
		cfg.Host = defaultHost
	}
	if cfg.MaxPayload == 0 {
		cfg.MaxPayload = defaultMaxPayload
	}
	return cfg
}

func (cfg ServerConfig) options() *server.Options {
	options := &server.Options{
		ServerName:          "podfall",
		Host:                cfg.Host,
		Port:                cfg.Port,
		DontListen:          cfg.Port == InProcessOnly,
		NoSigs:              true,
		NoSystemAccount:     true,
		MaxPayload:          cfg.MaxPayload,
		WriteDeadline:       writeDeadline,
		PingInterval:        serverPing,
		MaxPingsOut:         maxMissedPings,
		AuthTimeout:         authTimeout.Seconds(),
		NoFastProducerStall: true,
	}
	for _, user := range cfg.Users {
		may := PermissionsFor(user.Identity)
		options.Nkeys = append(options.Nkeys, &server.NkeyUser{
			Nkey: user.Public,
			Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: may.Publish},
				Subscribe: &server.SubjectPermission{Allow: may.Subscribe},
			},
		})
	}
	return options
}

// URL returns the address for Dial; empty for a server without a socket.
func (s *Server) URL() string {
	if !s.listen {
		return ""
	}
	return s.nats.ClientURL()
}

// InProcessConn opens a connection to the server without a socket.
func (s *Server) InProcessConn() (net.Conn, error) {
	conn, err := s.nats.InProcessConn()
	if err != nil {
		return nil, fmt.Errorf("connect in process: %w", err)
	}
	return conn, nil
}

// Close disconnects all clients and waits for the server to end.
func (s *Server) Close() {
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
}

// serverLog receives the log of the NATS server.
type serverLog struct {
	log   func(level slog.Level, text string)
	fatal atomic.Pointer[string]
}

func newServerLog(ctx context.Context, log *slog.Logger) *serverLog {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx = context.WithoutCancel(ctx)
	return &serverLog{log: func(level slog.Level, text string) {
		log.Log(ctx, level, "nats server", "text", text)
	}}
}

// Noticef logs at debug level: notices interest only developers of the bus.
func (l *serverLog) Noticef(format string, v ...any) { l.logf(slog.LevelDebug, format, v) }

// Warnf logs a warning.
func (l *serverLog) Warnf(format string, v ...any) { l.logf(slog.LevelWarn, format, v) }

// Errorf logs client errors as warnings.
func (l *serverLog) Errorf(format string, v ...any) { l.logf(slog.LevelWarn, format, v) }

// Fatalf logs and keeps the reason why the server cannot run.
func (l *serverLog) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.fatal.Store(&text)
	l.log(slog.LevelError, text)
}

// Debugf is not enabled.
func (l *serverLog) Debugf(format string, v ...any) { l.logf(slog.LevelDebug, format, v) }

// Tracef is not enabled.
func (l *serverLog) Tracef(format string, v ...any) { l.logf(slog.LevelDebug, format, v) }

func (l *serverLog) logf(level slog.Level, format string, v []any) {
	l.log(level, fmt.Sprintf(format, v...))
}
