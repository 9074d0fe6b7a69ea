import torch
from torch.nn.functional import cross_entropy

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
images = torch.randn(640, 64)
labels = images[:, :10].argmax(dim=1)  # something that can be learned

model = torch.nn.Sequential(
    torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.cuda.amp.GradScaler()

for epoch in range(3):
    for x, y in zip(images.split(32), labels.split(32)):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        with torch.cuda.amp.autocast():
            loss = cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
torch.save(model.state_dict(), "model.pt")
