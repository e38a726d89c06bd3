import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main method of Apache's command-line tools in this process. Standard streams are replaced
 * once, before any tool class loads, by streams that forward to the buffers of the present call;
 * an exit becomes an error that unwinds to here, and the first exit code counts.
 */
final class ToolRunner {
    private static final class Exited extends Error {
        Exited() {
            super("exit", null, false, false);
        }
    }

    private static final class Forward extends OutputStream {
        volatile OutputStream target = OutputStream.nullOutputStream();

        @Override
        public void write(int b) throws java.io.IOException {
            target.write(b);
        }

        @Override
        public void write(byte[] bytes, int from, int length) throws java.io.IOException {
            target.write(bytes, from, length);
        }
    }

    private final Forward out = new Forward();
    private final Forward err = new Forward();
    private volatile Integer exitCode;

    /** Stays open: some tools close the standard streams when they are done. */
    private static final class Unclosable extends PrintStream {
        Unclosable(OutputStream target) {
            super(target, true);
        }

        @Override
        public void close() {
            flush();
        }
    }

    ToolRunner() {
        System.setOut(new Unclosable(out));
        System.setErr(new Unclosable(err));
        Exit.Procedure procedure = (code, message) -> {
            if (exitCode == null) {
                exitCode = code;
            }
            throw new Exited();
        };
        Exit.setExitProcedure(procedure);
        Exit.setHaltProcedure(procedure);
    }

    Map<String, Object> run(String name, String[] args, String stdin) throws Exception {
        ByteArrayOutputStream outBytes = new ByteArrayOutputStream();
        ByteArrayOutputStream errBytes = new ByteArrayOutputStream();
        InputStream oldIn = System.in;
        System.setIn(new ByteArrayInputStream(stdin.getBytes(StandardCharsets.UTF_8)));
        out.target = outBytes;
        err.target = errBytes;
        exitCode = null;
        int code = 0;
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Exited)) {
                thrown.getCause().printStackTrace(System.err);
                code = 1;
            }
        } finally {
            System.out.flush();
            System.err.flush();
            out.target = OutputStream.nullOutputStream();
            err.target = OutputStream.nullOutputStream();
            System.setIn(oldIn);
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("code", exitCode != null ? exitCode : code);
        result.put("stdout", outBytes.toString(StandardCharsets.UTF_8));
        result.put("stderr", errBytes.toString(StandardCharsets.UTF_8));
        return result;
    }
}
